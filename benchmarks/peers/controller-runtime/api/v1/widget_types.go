// Package v1 contains API Schema definitions for the bench.kubewright.dev v1 API group.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion is group version used to register these objects.
	GroupVersion = schema.GroupVersion{Group: "bench.kubewright.dev", Version: "v1"}

	// SchemeBuilder is used to add go types to the GroupVersionKind scheme.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}

	// AddToScheme adds the types in this group-version to the given scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// WidgetSpec defines the desired state of Widget.
type WidgetSpec struct {
	// Message is a message for the ConfigMap.
	Message string `json:"message"`
	// Size is a number for the ConfigMap.
	Size int32 `json:"size"`
}

// WidgetStatus defines the observed state of Widget.
type WidgetStatus struct {
	// ObservedGeneration is the generation that the status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ConfigMap is the name of the ConfigMap.
	ConfigMap string `json:"configMap,omitempty"`
	// Conditions say whether the ConfigMap matches the spec.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Widget is the Schema for the widgets API.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// WidgetList contains a list of Widget.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Widget{}, &WidgetList{})
}
