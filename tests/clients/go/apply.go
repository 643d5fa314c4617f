package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// apply writes by server-side apply with Go's apply configurations, extracts what it owns, and retries on conflict.
func apply(ctx context.Context, config *rest.Config, namespace string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	deployments := clients.AppsV1().Deployments(namespace)
	wanted := func(image string) *appsac.DeploymentApplyConfiguration {
		container := coreac.Container().WithName("main").WithImage(image).
			WithPorts(coreac.ContainerPort().WithContainerPort(80))
		template := coreac.PodTemplateSpec().WithLabels(labels).WithSpec(coreac.PodSpec().WithContainers(container))
		return appsac.Deployment("sample", namespace).WithSpec(appsac.DeploymentSpec().WithReplicas(0).
			WithSelector(metaac.LabelSelector().WithMatchLabels(labels)).WithTemplate(template))
	}
	made, err := deployments.Apply(ctx, wanted("nginx:1"), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	owned, err := appsac.ExtractDeployment(made, "one")
	if err != nil || *owned.Spec.Template.Spec.Containers[0].Image != "nginx:1" {
		return fmt.Errorf("extract: %+v %w", owned, err)
	}
	if _, err := deployments.Apply(ctx, wanted("nginx:2"), metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("apply by another: %v", err)
	}
	taken, err := deployments.Apply(ctx, wanted("nginx:2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || taken.Spec.Template.Spec.Containers[0].Image != "nginx:2" {
		return fmt.Errorf("forced: %w", err)
	}
	scale, err := deployments.GetScale(ctx, "sample", metav1.GetOptions{})
	if err != nil || scale.Status.Selector != "app=sample" {
		return fmt.Errorf("scale: %+v %w", scale, err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		read, err := deployments.Get(ctx, "sample", metav1.GetOptions{})
		if err != nil {
			return err
		}
		read.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
		_, err = deployments.Update(ctx, read, metav1.UpdateOptions{})
		return err
	})
}
