package main

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

var oldGroupVersion = schema.GroupVersion{Group: groupVersion.Group, Version: "v1alpha1"}

// Host is a custom resource with two versions. This one is stored, and the hub of conversions.
type Host struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostSpec `json:"spec"`
}

// HostSpec is what users want.
type HostSpec struct {
	Name string `json:"name"`
	Port int    `json:"port,omitempty"`
}

// HostList is several of them.
type HostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Host `json:"items"`
}

// HostV1Alpha1 has name and port in one field.
type HostV1Alpha1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              HostV1Alpha1Spec `json:"spec"`
}

// HostV1Alpha1Spec is what users want.
type HostV1Alpha1Spec struct {
	Address string `json:"address"`
}

// HostV1Alpha1List is several of them.
type HostV1Alpha1List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostV1Alpha1 `json:"items"`
}

// Hub marks the version that every other one is converted to.
func (h *Host) Hub() {}

// ConvertTo writes the hub.
func (h *HostV1Alpha1) ConvertTo(to conversion.Hub) error {
	hub := to.(*Host)
	hub.ObjectMeta = h.ObjectMeta
	name, port, found := strings.Cut(h.Spec.Address, ":")
	hub.Spec.Name = name
	if !found {
		return nil
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("spec.address: %q is not a port", port)
	}
	hub.Spec.Port = number
	return nil
}

// ConvertFrom reads the hub.
func (h *HostV1Alpha1) ConvertFrom(from conversion.Hub) error {
	hub := from.(*Host)
	h.ObjectMeta = hub.ObjectMeta
	h.Spec.Address = hub.Spec.Name
	if hub.Spec.Port != 0 {
		h.Spec.Address += ":" + strconv.Itoa(hub.Spec.Port)
	}
	return nil
}

// DeepCopyObject is written by hand, as are the others.
func (h *Host) DeepCopyObject() runtime.Object {
	out := *h
	h.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject copies every item.
func (l *HostList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Host))
	}
	return &out
}

// DeepCopyObject copies the metadata: all else are values.
func (h *HostV1Alpha1) DeepCopyObject() runtime.Object {
	out := *h
	h.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject copies every item.
func (l *HostV1Alpha1List) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*HostV1Alpha1))
	}
	return &out
}

// hostScheme knows both versions of Host, and the built-in kinds.
func hostScheme() (*runtime.Scheme, error) {
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		return nil, err
	}
	if err := apiextensionsv1.AddToScheme(all); err != nil {
		return nil, err
	}
	all.AddKnownTypes(groupVersion, &Host{}, &HostList{})
	all.AddKnownTypeWithName(oldGroupVersion.WithKind("Host"), &HostV1Alpha1{})
	all.AddKnownTypeWithName(oldGroupVersion.WithKind("HostList"), &HostV1Alpha1List{})
	metav1.AddToGroupVersion(all, groupVersion)
	metav1.AddToGroupVersion(all, oldGroupVersion)
	return all, nil
}

func hostDefinition() *apiextensionsv1.CustomResourceDefinition {
	text, number := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	version := func(group schema.GroupVersion, fields map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name:    group.Version,
			Served:  true,
			Storage: group == groupVersion,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type:       "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: maps.Clone(fields)}},
			}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "hosts." + groupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "hosts", Kind: "Host", ListKind: "HostList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				version(groupVersion, map[string]apiextensionsv1.JSONSchemaProps{"name": text, "port": number}),
				version(oldGroupVersion, map[string]apiextensionsv1.JSONSchemaProps{"address": text}),
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://localhost/convert")},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
	}
}
