package main

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var labels = map[string]string{"app": "sample"}

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "sample", Labels: labels}
}

func podTemplate(policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: policy,
			Containers: []corev1.Container{{
				Name:          "main",
				Image:         "nginx:1.23",
				Ports:         []corev1.ContainerPort{{ContainerPort: 80}},
				Env:           []corev1.EnvVar{{Name: "EMPTY"}},
				LivenessProbe: probe,
				Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.5")},
				},
			}},
			Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: labels} }

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(), Data: map[string]string{"k": "v"}}
}

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(), Data: map[string][]byte{"k": {0, 255}}}
}

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(), Spec: corev1.ServiceSpec{
		Selector: labels,
		Ports:    []corev1.ServicePort{{Port: 80}},
	}}
}

func serviceAccount() *corev1.ServiceAccount { return &corev1.ServiceAccount{ObjectMeta: meta()} }

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(), Spec: podTemplate(corev1.RestartPolicyAlways).Spec}
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: meta(), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}}
}

func quota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: meta(), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100")},
	}}
}

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0),
		Selector: selector(),
		Template: podTemplate(corev1.RestartPolicyAlways),
	}}
}

func statefulSet() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{
		Replicas:    ptr.To[int32](0),
		ServiceName: "sample",
		Selector:    selector(),
		Template:    podTemplate(corev1.RestartPolicyAlways),
	}}
}

func daemonSet() *appsv1.DaemonSet {
	template := podTemplate(corev1.RestartPolicyAlways)
	template.Spec.NodeSelector = map[string]string{"no": "node"}
	return &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: template}}
}

func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To[int32](0),
		Selector: selector(),
		Template: podTemplate(corev1.RestartPolicyAlways),
	}}
}

func job() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{
		Suspend:  ptr.To(true),
		Template: podTemplate(corev1.RestartPolicyNever),
	}}
}

func cronJob() *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: meta(), Spec: batchv1.CronJobSpec{
		Schedule:    "0 0 1 1 *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: podTemplate(corev1.RestartPolicyNever)}},
	}}
}

func ingress() *networkingv1.Ingress {
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "sample",
		Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	return &networkingv1.Ingress{ObjectMeta: meta(), Spec: networkingv1.IngressSpec{DefaultBackend: &backend}}
}

func networkPolicy() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: meta(), Spec: networkingv1.NetworkPolicySpec{PodSelector: *selector()}}
}

func role() *rbacv1.Role {
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	return &rbacv1.Role{ObjectMeta: meta(), Rules: []rbacv1.PolicyRule{rule}}
}

func roleBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(),
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sample"}, {Kind: "User", Name: "jane"}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "sample"},
	}
}

func disruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromString("50%")),
		Selector:     selector(),
	}}
}

func autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	metric := autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)},
		},
	}
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta(), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "other", APIVersion: "apps/v1"},
		MaxReplicas:    3,
		Metrics:        []autoscalingv2.MetricSpec{metric},
	}}
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: meta(), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("me"),
		RenewTime:      ptr.To(metav1.NowMicro()),
	}}
}

func endpointSlice() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
	}
}
