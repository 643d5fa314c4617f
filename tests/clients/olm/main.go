// Validates bundles and catalogs with the validators of Go's Operator Framework modules.
//
// Each line of standard input is a request: {"what": "bundle|format|catalog", "path": FOLDER, "suites": [...],
// "kubernetes": VERSION}. Each line of standard output is the answer: the findings, as a JSON list.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validationerrors "github.com/operator-framework/api/pkg/validation/errors"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/sirupsen/logrus"
)

type request struct {
	What       string   `json:"what"`
	Path       string   `json:"path"`
	Suites     []string `json:"suites"`
	Kubernetes string   `json:"kubernetes"`
}

type finding struct {
	Suite string `json:"suite"`
	Level string `json:"level"`
	Type  string `json:"type"`
	Field string `json:"field"`
	Value string `json:"value"`
	Text  string `json:"text"`
}

var suites = map[string]validator.Validators{
	"default":               validation.DefaultBundleValidators,
	"operatorhubv2":         {validation.OperatorHubV2Validator},
	"capabilities":          {validation.StandardCapabilitiesValidator},
	"categories":            {validation.StandardCategoriesValidator},
	"good-practices":        {validation.GoodPracticesValidator},
	"alpha-deprecated-apis": {validation.AlphaDeprecatedAPIsValidator},
	"bundle-objects":        {validation.ObjectValidator},
	"community":             {validation.CommunityOperatorValidator},
	"multiarch":             {validation.MultipleArchitecturesValidator},
}

func main() {
	logrus.SetOutput(io.Discard)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		found, err := json.Marshal(answer(asked))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(found))
	}
}

// answer survives a validator that panics, as that of the content of an image does without a ClusterServiceVersion.
func answer(asked request) (found []finding) {
	defer func() {
		if problem := recover(); problem != nil {
			found = []finding{failed("panic", fmt.Errorf("%v", problem))}
		}
	}()
	switch asked.What {
	case "bundle":
		return ofBundle(asked)
	case "format":
		return ofFormat(asked)
	default:
		return ofCatalog(asked)
	}
}

func ofBundle(asked request) []finding {
	found := []finding{}
	loaded, err := manifests.GetBundleFromDir(asked.Path)
	if err != nil {
		return append(found, failed("load", err))
	}
	for _, name := range asked.Suites {
		objects := loaded.ObjectsToValidate()
		if asked.Kubernetes != "" {
			objects = append(objects, map[string]string{"k8s-version": asked.Kubernetes})
		}
		for _, result := range suites[name].Validate(objects...) {
			for _, each := range result.Errors {
				found = append(found, of(name, each))
			}
			for _, each := range result.Warnings {
				found = append(found, of(name, each))
			}
		}
	}
	return found
}

func ofFormat(asked request) []finding {
	found := []finding{}
	images := bundle.NewImageValidator(nil, logrus.NewEntry(logrus.StandardLogger()))
	if err := images.ValidateBundleFormat(asked.Path); err != nil {
		found = append(found, each("format", err)...)
	}
	if err := images.ValidateBundleContent(filepath.Join(asked.Path, "manifests")); err != nil {
		found = append(found, each("content", err)...)
	}
	return found
}

func ofCatalog(asked request) []finding {
	config, err := declcfg.LoadFS(context.Background(), os.DirFS(asked.Path))
	if err != nil {
		return []finding{failed("load", err)}
	}
	if _, err := declcfg.ConvertToModel(*config); err != nil {
		return []finding{failed("catalog", err)}
	}
	return []finding{}
}

func each(suite string, err error) []finding {
	several, ok := err.(bundle.ValidationError)
	if !ok {
		return []finding{failed(suite, err)}
	}
	found := []finding{}
	for _, one := range several.Errors {
		if known, ok := one.(validationerrors.Error); ok {
			found = append(found, of(suite, known))
		} else {
			found = append(found, failed(suite, one))
		}
	}
	return found
}

func of(suite string, err validationerrors.Error) finding {
	value := ""
	if err.BadValue != nil {
		value = fmt.Sprint(err.BadValue)
	}
	return finding{suite, string(err.Level), string(err.Type), err.Field, value, err.Detail}
}

func failed(suite string, err error) finding {
	return finding{suite, "Error", "", "", "", err.Error()}
}
