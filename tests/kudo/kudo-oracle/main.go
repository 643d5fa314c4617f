// Reads a JSON array of questions from standard input, asks KUDO each of them, and writes a JSON array of answers.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	_ "unsafe" // for the functions that KUDO does not export

	kudoapi "github.com/kudobuilder/kudo/pkg/apis/kudo/v1beta1"
	"github.com/kudobuilder/kudo/pkg/engine"
	"github.com/kudobuilder/kudo/pkg/engine/renderer"
	"github.com/kudobuilder/kudo/pkg/kudoctl/clog"
	"github.com/kudobuilder/kudo/pkg/kudoctl/cmd/verify"
	"github.com/kudobuilder/kudo/pkg/kudoctl/packages/convert"
	"github.com/kudobuilder/kudo/pkg/kudoctl/packages/reader"
	"github.com/kudobuilder/kudo/pkg/kudoctl/packages/verifier/template"
	_ "github.com/kudobuilder/kudo/pkg/webhook"
	"github.com/spf13/afero"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clientgotesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

//go:linkname admitUpdate github.com/kudobuilder/kudo/pkg/webhook.admitUpdate
func admitUpdate(old, new *kudoapi.Instance, ov, oldOv *kudoapi.OperatorVersion) (*string, error)

//go:linkname validateParameters github.com/kudobuilder/kudo/pkg/webhook.validateParameters
func validateParameters(ov *kudoapi.OperatorVersion, instance *kudoapi.Instance) error

//go:linkname setImmutableParameterDefaults github.com/kudobuilder/kudo/pkg/webhook.setImmutableParameterDefaults
func setImmutableParameterDefaults(ov *kudoapi.OperatorVersion, instance *kudoapi.Instance)

// Question is what to ask: verify, resources, create, update or enhance.
type Question struct {
	Ask      string                   `json:"ask"`
	Files    map[string]string        `json:"files"`
	Checks   []string                 `json:"checks"`
	Old      *kudoapi.Instance        `json:"old"`
	New      *kudoapi.Instance        `json:"new"`
	OV       *kudoapi.OperatorVersion `json:"ov"`
	OldOV    *kudoapi.OperatorVersion `json:"oldOv"`
	Text     string                   `json:"text"`
	Existing []json.RawMessage        `json:"existing"`
}

// Answer has what KUDO returned.
type Answer map[string]any

const folder = "/package"

func read(files map[string]string) (afero.Fs, error) {
	fs := afero.NewMemMapFs()
	for name, text := range files {
		if err := afero.WriteFile(fs, folder+"/"+name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return fs, nil
}

func verified(question Question) (Answer, error) {
	fs, err := read(question.Files)
	if err != nil {
		return nil, err
	}
	files, err := reader.PackageFilesFromDir(fs, folder)
	if err != nil {
		return nil, err
	}
	result := verify.PackageFiles(files)
	checks := template.ExtendedParametersVerifier{}
	if err := checks.SetFromArguments(question.Checks); err != nil {
		return nil, err
	}
	result.Merge(checks.Verify(files))
	sort.Strings(result.Errors)
	sort.Strings(result.Warnings)
	return Answer{"errors": result.Errors, "warnings": result.Warnings}, nil
}

func resources(question Question) (Answer, error) {
	fs, err := read(question.Files)
	if err != nil {
		return nil, err
	}
	files, err := reader.PackageFilesFromDir(fs, folder)
	if err != nil {
		return nil, err
	}
	made, err := convert.FilesToResources(files)
	if err != nil {
		return nil, err
	}
	return Answer{"operator": made.Operator, "operatorVersion": made.OperatorVersion, "instance": made.Instance}, nil
}

func created(question Question) (Answer, error) {
	setImmutableParameterDefaults(question.OV, question.New)
	if err := validateParameters(question.OV, question.New); err != nil {
		return nil, err
	}
	return Answer{"parameters": question.New.Spec.Parameters}, nil
}

func updated(question Question) (Answer, error) {
	oldOV := question.OldOV
	if oldOV == nil {
		oldOV = question.OV
	}
	plan, err := admitUpdate(question.Old, question.New, question.OV, oldOV)
	if err != nil {
		return nil, err
	}
	return Answer{"plan": plan, "parameters": question.New.Spec.Parameters}, nil
}

func enhanced(question Question) (Answer, error) {
	objects, err := renderer.YamlToObject(question.Text)
	if err != nil {
		return nil, err
	}
	existing, err := decoded(question.Existing)
	if err != nil {
		return nil, err
	}
	if err := kudoapi.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	enhancer := &renderer.DefaultEnhancer{
		Scheme:    scheme.Scheme,
		Client:    fake.NewFakeClientWithScheme(scheme.Scheme, existing...),
		Discovery: kinds(),
	}
	made, err := enhancer.Apply(objects, metadata(question.New))
	return Answer{"objects": made}, err
}

func decoded(documents []json.RawMessage) ([]runtime.Object, error) {
	var objects []runtime.Object
	for _, each := range documents {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(each, nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func metadata(instance *kudoapi.Instance) renderer.Metadata {
	return renderer.Metadata{
		Metadata: engine.Metadata{
			InstanceName:        instance.Name,
			InstanceNamespace:   instance.Namespace,
			OperatorName:        "zookeeper",
			OperatorVersionName: "zookeeper-1.0.0",
			OperatorVersion:     "1.0.0",
			AppVersion:          "3.9",
			ResourcesOwner:      instance,
		},
		PlanName: "deploy", PlanUID: "plan-uid", PhaseName: "main", StepName: "all", TaskName: "app",
	}
}

func kinds() discovery.CachedDiscoveryInterface {
	namespaced := func(kind string) metav1.APIResource { return metav1.APIResource{Kind: kind, Namespaced: true} }
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			namespaced("ConfigMap"), namespaced("Secret"), namespaced("Service"), namespaced("Pod"), {Kind: "Namespace"},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			namespaced("Deployment"), namespaced("StatefulSet"), namespaced("DaemonSet"), namespaced("ReplicaSet"),
		}},
		{GroupVersion: "batch/v1", APIResources: []metav1.APIResource{namespaced("Job")}},
		{GroupVersion: "batch/v1beta1", APIResources: []metav1.APIResource{namespaced("CronJob")}},
		{GroupVersion: "rbac.authorization.k8s.io/v1", APIResources: []metav1.APIResource{{Kind: "ClusterRole"}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{namespaced("Widget")}},
	}
	return memory.NewMemCacheClient(&fakediscovery.FakeDiscovery{Fake: &clientgotesting.Fake{Resources: lists}})
}

func answer(question Question) (found Answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			found = Answer{"error": fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	asked := map[string]func(Question) (Answer, error){
		"verify": verified, "resources": resources, "create": created, "update": updated, "enhance": enhanced,
	}
	found, err := asked[question.Ask](question)
	if err != nil {
		return Answer{"error": err.Error()}
	}
	return found
}

func main() {
	log.SetOutput(os.Stderr)
	clog.InitNoFlag(os.Stderr, 0)
	var questions []Question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		log.Fatal(err)
	}
	answers := make([]Answer, 0, len(questions))
	for _, each := range questions {
		answers = append(answers, answer(each))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}
