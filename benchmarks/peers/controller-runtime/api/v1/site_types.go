package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SiteSpec defines the desired state of Site.
type SiteSpec struct {
	// Message is the content of the Site, which a ConfigMap holds.
	Message string `json:"message"`
	// Size is the number of replicas.
	Size int32 `json:"size"`
	// Secret is the name of a Secret in the same namespace.
	Secret string `json:"secret"`
}

// SiteStatus defines the observed state of Site.
type SiteStatus struct {
	// ObservedGeneration is the generation that the status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SecretVersion is the resource version of the Secret that the Deployment uses.
	SecretVersion string `json:"secretVersion,omitempty"`
	// Conditions say whether the owned objects match the spec.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Site is the Schema for the sites API.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// SiteList contains a list of Site.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Site{}, &SiteList{})
}
