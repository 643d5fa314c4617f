package main

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

var groupVersion = schema.GroupVersion{Group: "clients.example", Version: "v1"}

// App is a custom resource with a default, and conditions in its status.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              AppSpec   `json:"spec"`
	Status            AppStatus `json:"status,omitempty"`
}

// AppSpec is what users want.
type AppSpec struct {
	Replicas *int32 `json:"replicas,omitempty"`
	Image    string `json:"image"`
}

// AppStatus is what the controller saw.
type AppStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AppList is several of them.
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []App `json:"items"`
}

// DeepCopyObject is written by hand: there is one kind.
func (a *App) DeepCopyObject() runtime.Object {
	out := *a
	a.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if a.Spec.Replicas != nil {
		out.Spec.Replicas = ptr.To(*a.Spec.Replicas)
	}
	out.Status.Conditions = slices.Clone(a.Status.Conditions)
	return &out
}

// DeepCopy is DeepCopyObject with the type kept.
func (a *App) DeepCopy() *App { return a.DeepCopyObject().(*App) }

// DeepCopyObject copies every item.
func (l *AppList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopy())
	}
	return &out
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	text, number, object := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{
		Type:    "integer",
		Format:  "int32",
		Minimum: ptr.To(0.0),
		Default: &apiextensionsv1.JSON{Raw: []byte("1")},
	}, "object"
	condition := apiextensionsv1.JSONSchemaProps{Type: object, XPreserveUnknownFields: ptr.To(true)}
	conditions := apiextensionsv1.JSONSchemaProps{
		Type:  "array",
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition},
	}
	whole := apiextensionsv1.JSONSchemaProps{Type: object, Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {
			Type:       object,
			Required:   []string{"image"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"replicas": number, "image": text},
		},
		"status": {
			Type:       object,
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"conditions": conditions},
		},
	}}
	version := apiextensionsv1.CustomResourceDefinitionVersion{
		Name:         groupVersion.Version,
		Served:       true,
		Storage:      true,
		Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "apps." + groupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    groupVersion.Group,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "apps", Kind: "App", ListKind: "AppList"},
			Scope:    apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
		},
	}
}
