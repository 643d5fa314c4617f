package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	mutatePath   = "/mutate-clients-example-v1-host"
	validatePath = "/validate-clients-example-v1-host"
	convertPath  = "/convert"
)

// webhooksByURL lets envtest install the CRD and the webhooks, which it rewrites from Services to URLs.
// Expects USE_EXISTING_CLUSTER to be set.
func webhooksByURL(ctx context.Context, config *rest.Config, namespace string) error {
	log.SetLogger(klog.Background())
	all, err := hostScheme()
	if err != nil {
		return err
	}
	mutating, validating := hostWebhooksBehindService()
	env := hostEnvironment(all, mutating, validating)
	if _, err := env.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: all})
	if err != nil {
		return err
	}
	installed := env.WebhookInstallOptions
	err = serveHosts(ctx, config, all, webhook.Options{
		Host: installed.LocalServingHost, Port: installed.LocalServingPort, CertDir: installed.LocalServingCertDir,
	}, func() error { return walkHosts(ctx, config, all, namespace) })
	// A real garbage collector would need the conversion webhook that has just ended.
	for _, each := range []client.Object{mutating, validating} {
		if failed := direct.Delete(ctx, each); err == nil {
			err = failed
		}
	}
	if failed := env.Stop(); err == nil {
		err = failed
	}
	return err
}

// hostEnvironment returns an environment that installs Host and its webhooks.
func hostEnvironment(all *runtime.Scheme, mutating *admissionv1.MutatingWebhookConfiguration, validating *admissionv1.ValidatingWebhookConfiguration) *envtest.Environment {
	return &envtest.Environment{
		Scheme:            all,
		CRDInstallOptions: envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{hostDefinition()}, CleanUpAfterUse: true},
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			MutatingWebhooks:   []*admissionv1.MutatingWebhookConfiguration{mutating},
			ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{validating},
		},
	}
}

// hostWebhooksBehindService returns the configurations that a project contains, which envtest rewrites to URLs.
func hostWebhooksBehindService() (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	return hostWebhooks(func(path string) admissionv1.WebhookClientConfig {
		service := admissionv1.ServiceReference{Name: "webhook-service", Namespace: "system", Path: ptr.To(path)}
		return admissionv1.WebhookClientConfig{Service: &service}
	})
}

// webhooksByService registers the same webhooks under a Service whose name is in the certificate in CERT_DIR.
// The Service has the type ExternalName, so that a server without a network of Pods reaches this program.
func webhooksByService(ctx context.Context, config *rest.Config, namespace string) error {
	log.SetLogger(klog.Background())
	all, err := hostScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: all})
	if err != nil {
		return err
	}
	folder := os.Getenv("CERT_DIR")
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks", Namespace: "default"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	mutating, validating := hostWebhooks(func(path string) admissionv1.WebhookClientConfig {
		reference := admissionv1.ServiceReference{Name: service.Name, Namespace: service.Namespace, Path: ptr.To(path), Port: ptr.To(int32(port))}
		return admissionv1.WebhookClientConfig{Service: &reference, CABundle: authority}
	})
	definition := hostDefinition()
	definition.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{
		Service: &apiextensionsv1.ServiceReference{
			Name: service.Name, Namespace: service.Namespace, Path: ptr.To(convertPath), Port: ptr.To(int32(port)),
		},
		CABundle: authority,
	}
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}, Scheme: all}
	objects := []client.Object{service, mutating, validating}
	return serveHosts(ctx, config, all, webhook.Options{Host: "localhost", Port: port, CertDir: folder}, func() (err error) {
		if _, err := envtest.InstallCRDs(config, options); err != nil {
			return fmt.Errorf("install: %w", err)
		}
		for _, each := range objects {
			if err := direct.Create(ctx, each); err != nil {
				return err
			}
		}
		defer func() {
			for _, each := range objects[1:] {
				_ = direct.Delete(ctx, each)
			}
			_ = envtest.UninstallCRDs(config, options)
			_ = direct.Delete(ctx, service)
		}()
		return walkHosts(ctx, config, all, namespace)
	})
}

// hostWebhooks returns the configurations that `controller-gen` would write.
func hostWebhooks(clientConfig func(path string) admissionv1.WebhookClientConfig) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration) {
	rules := func(operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		rule := admissionv1.Rule{
			APIGroups: []string{groupVersion.Group}, APIVersions: []string{groupVersion.Version}, Resources: []string{"hosts"},
		}
		return []admissionv1.RuleWithOperations{{Operations: operations, Rule: rule}}
	}
	none := ptr.To(admissionv1.SideEffectClassNone)
	mutating := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "clients"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "mhost-v1.kb.io", ClientConfig: clientConfig(mutatePath), SideEffects: none,
			Rules: rules("CREATE", "UPDATE"), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "clients"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "vhost-v1.kb.io", ClientConfig: clientConfig(validatePath), SideEffects: none,
			Rules: rules("CREATE", "UPDATE", "DELETE"), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	return mutating, validating
}

// serveHosts runs a manager with the webhooks of Host while use runs.
func serveHosts(ctx context.Context, config *rest.Config, all *runtime.Scheme, options webhook.Options, use func() error) error {
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: all, Metrics: server.Options{BindAddress: "0"}, WebhookServer: webhook.NewServer(options),
	})
	if err != nil {
		return err
	}
	rules := &hostRules{}
	if err := ctrl.NewWebhookManagedBy(manager, &Host{}).WithDefaulter(rules).WithValidator(rules).Complete(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(ctx) }()
	err = eventually(ctx, func() error { return manager.GetWebhookServer().StartedChecker()(nil) })
	if err == nil {
		err = use()
	}
	stop()
	if failed := <-stopped; err == nil {
		err = failed
	}
	return err
}

// hostRules are the defaults and the rules of Host.
type hostRules struct{}

func (*hostRules) Default(_ context.Context, host *Host) error {
	if host.Spec.Port == 0 {
		host.Spec.Port = 80
	}
	return nil
}

func (*hostRules) ValidateCreate(_ context.Context, host *Host) (admission.Warnings, error) {
	switch host.Spec.Name {
	case "localhost":
		return nil, fmt.Errorf("localhost is reserved")
	case "":
		fault := field.Required(field.NewPath("spec", "name"), "name the host")
		return nil, apierrors.NewInvalid(groupVersion.WithKind("Host").GroupKind(), host.Name, field.ErrorList{fault})
	case "panic":
		panic("no such host")
	}
	if host.Spec.Port < 1024 {
		return admission.Warnings{fmt.Sprintf("port %d is privileged", host.Spec.Port)}, nil
	}
	return nil, nil
}

func (*hostRules) ValidateUpdate(_ context.Context, before, after *Host) (admission.Warnings, error) {
	if before.Spec.Name != after.Spec.Name {
		return nil, fmt.Errorf("%s cannot become %s", before.Spec.Name, after.Spec.Name)
	}
	return nil, nil
}

func (*hostRules) ValidateDelete(_ context.Context, host *Host) (admission.Warnings, error) {
	if host.Labels["keep"] != "" {
		return nil, fmt.Errorf("%s is kept", host.Spec.Name)
	}
	return nil, nil
}

// warnings collects what the server warns of.
type warnings struct {
	lock sync.Mutex
	all  []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.all = append(w.all, text)
}

// walkHosts writes Hosts in both versions, and checks what webhooks and conversions make of them.
func walkHosts(ctx context.Context, config *rest.Config, all *runtime.Scheme, namespace string) error {
	said := &warnings{}
	warned := rest.CopyConfig(config)
	warned.WarningHandler = said
	direct, err := client.New(warned, client.Options{Scheme: all})
	if err != nil {
		return err
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }
	if err := eventually(ctx, func() error { return isUsed(ctx, direct, meta("probe")) }); err != nil {
		return err
	}
	web := &Host{ObjectMeta: meta("web"), Spec: HostSpec{Name: "web"}}
	if err := direct.Create(ctx, web); err != nil || web.Spec.Port != 80 {
		return fmt.Errorf("default: %+v %w", web.Spec, err)
	}
	if !slices.Contains(said.all, "port 80 is privileged") {
		return fmt.Errorf("warnings: %q", said.all)
	}
	if err := denials(ctx, direct, web, meta); err != nil {
		return err
	}
	return versions(ctx, direct, web, meta)
}

// isUsed says whether the server knows the webhooks, which takes a real one a while.
func isUsed(ctx context.Context, direct client.Client, meta metav1.ObjectMeta) error {
	probe := &Host{ObjectMeta: meta, Spec: HostSpec{Name: "probe"}}
	if err := direct.Create(ctx, probe, client.DryRunAll); err != nil || probe.Spec.Port != 80 {
		return fmt.Errorf("no default yet: %+v %w", probe.Spec, err)
	}
	denied := &Host{ObjectMeta: meta, Spec: HostSpec{Name: "localhost"}}
	if err := direct.Create(ctx, denied, client.DryRunAll); !apierrors.IsForbidden(err) {
		return fmt.Errorf("not denied yet: %w", err)
	}
	return nil
}

func denials(ctx context.Context, direct client.Client, web *Host, meta func(string) metav1.ObjectMeta) error {
	err := direct.Create(ctx, &Host{ObjectMeta: meta("one"), Spec: HostSpec{Name: "localhost"}})
	wanted := `admission webhook "vhost-v1.kb.io" denied the request: localhost is reserved`
	if !apierrors.IsForbidden(err) || err.Error() != wanted {
		return fmt.Errorf("denied: %w", err)
	}
	err = direct.Create(ctx, &Host{ObjectMeta: meta("two")})
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details.Causes[0].Field != "spec.name" {
		return fmt.Errorf("invalid: %w", err)
	}
	err = direct.Create(ctx, &Host{ObjectMeta: meta("three"), Spec: HostSpec{Name: "panic"}})
	if !apierrors.IsInternalError(err) && !strings.Contains(fmt.Sprint(err), "panic: no such host [recovered]") {
		return fmt.Errorf("panic: %w", err)
	}
	changed := web.DeepCopyObject().(*Host)
	changed.Spec.Name = "other"
	if err := direct.Update(ctx, changed); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "web cannot become other") {
		return fmt.Errorf("update: %w", err)
	}
	patch := client.MergeFrom(web.DeepCopyObject().(*Host))
	web.Labels = map[string]string{"keep": "yes"}
	if err := direct.Patch(ctx, web, patch); err != nil {
		return fmt.Errorf("label: %w", err)
	}
	if err := direct.Delete(ctx, web); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "web is kept") {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

func versions(ctx context.Context, direct client.Client, web *Host, meta func(string) metav1.ObjectMeta) error {
	old := &HostV1Alpha1{}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(web), old); err != nil || old.Spec.Address != "web:80" {
		return fmt.Errorf("read in the old version: %+v %w", old.Spec, err)
	}
	made := &HostV1Alpha1{ObjectMeta: meta("old"), Spec: HostV1Alpha1Spec{Address: "old"}}
	if err := direct.Create(ctx, made); err != nil || made.Spec.Address != "old:80" {
		return fmt.Errorf("default of the old version: %+v %w", made.Spec, err)
	}
	err := direct.Create(ctx, &HostV1Alpha1{ObjectMeta: meta("bad"), Spec: HostV1Alpha1Spec{Address: "bad:port"}})
	if err == nil || !strings.Contains(err.Error(), `spec.address: "port" is not a port`) {
		return fmt.Errorf("unconvertible: %w", err)
	}
	hosts, olds := &HostList{}, &HostV1Alpha1List{}
	if err := direct.List(ctx, hosts, client.InNamespace(made.Namespace)); err != nil || len(hosts.Items) != 2 {
		return fmt.Errorf("list: %+v %w", hosts.Items, err)
	}
	if err := direct.List(ctx, olds, client.InNamespace(made.Namespace)); err != nil || olds.Items[0].Spec.Address != "old:80" {
		return fmt.Errorf("list of the old version: %+v %w", olds.Items, err)
	}
	made.Spec.Address = "old:8080"
	if err := direct.Update(ctx, made); err != nil {
		return fmt.Errorf("update of the old version: %w", err)
	}
	host := &Host{}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(made), host); err != nil || host.Spec != (HostSpec{"old", 8080}) {
		return fmt.Errorf("read after an update in the old version: %+v %w", host.Spec, err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"keep":null}}}`))
	if err := direct.Patch(ctx, web, patch); err != nil {
		return err
	}
	return direct.DeleteAllOf(ctx, &Host{}, client.InNamespace(made.Namespace))
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
