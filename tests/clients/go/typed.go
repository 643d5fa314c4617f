package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// typedClient is what every generated client of a namespaced kind can do.
type typedClient[T metav1.Object, L runtime.Object] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// typed takes an object of each common kind through its life, with protobuf and with JSON.
func typed(ctx context.Context, config *rest.Config, namespace string) error {
	var all []error
	for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		speaking := rest.CopyConfig(config)
		speaking.ContentType = contentType
		speaking.AcceptContentTypes = contentType
		if contentType == runtime.ContentTypeProtobuf {
			speaking.AcceptContentTypes += "," + runtime.ContentTypeJSON
		}
		clients, err := kubernetes.NewForConfig(speaking)
		if err != nil {
			return err
		}
		all = append(all, errors.Join(lives(ctx, clients, namespace)...))
	}
	return errors.Join(all...)
}

func lives(ctx context.Context, clients kubernetes.Interface, ns string) []error {
	core, apps, batch := clients.CoreV1(), clients.AppsV1(), clients.BatchV1()
	networking, rbac := clients.NetworkingV1(), clients.RbacV1()
	return []error{
		live(ctx, core.ConfigMaps(ns), configMap()),
		live(ctx, core.Secrets(ns), secret()),
		live(ctx, core.Services(ns), service()),
		live(ctx, core.ServiceAccounts(ns), serviceAccount()),
		live(ctx, core.Pods(ns), pod()),
		live(ctx, core.PersistentVolumeClaims(ns), claim()),
		live(ctx, core.ResourceQuotas(ns), quota()),
		live(ctx, apps.Deployments(ns), deployment()),
		live(ctx, apps.StatefulSets(ns), statefulSet()),
		live(ctx, apps.DaemonSets(ns), daemonSet()),
		live(ctx, apps.ReplicaSets(ns), replicaSet()),
		live(ctx, batch.Jobs(ns), job()),
		live(ctx, batch.CronJobs(ns), cronJob()),
		live(ctx, networking.Ingresses(ns), ingress()),
		live(ctx, networking.NetworkPolicies(ns), networkPolicy()),
		live(ctx, rbac.Roles(ns), role()),
		live(ctx, rbac.RoleBindings(ns), roleBinding()),
		live(ctx, clients.PolicyV1().PodDisruptionBudgets(ns), disruptionBudget()),
		live(ctx, clients.AutoscalingV2().HorizontalPodAutoscalers(ns), autoscaler()),
		live(ctx, clients.CoordinationV1().Leases(ns), lease()),
		live(ctx, clients.DiscoveryV1().EndpointSlices(ns), endpointSlice()),
	}
}

// live creates, reads, updates, patches, lists, watches and deletes an object.
func live[T metav1.Object, L runtime.Object](ctx context.Context, client typedClient[T, L], obj T) error {
	err := steps(ctx, client, obj)
	if err != nil {
		return fmt.Errorf("%T: %w", obj, err)
	}
	return nil
}

func steps[T metav1.Object, L runtime.Object](ctx context.Context, client typedClient[T, L], obj T) error {
	made, err := client.Create(ctx, obj, metav1.CreateOptions{FieldManager: "clients"})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create again: %v", err)
	}
	if err := eventually(ctx, func() error { return unchanged(ctx, client, made.GetName()) }); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"annotations":{"patched":"yes"}}}`)
	for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		patched, err := client.Patch(ctx, made.GetName(), kind, patch, metav1.PatchOptions{})
		if err != nil || patched.GetAnnotations()["patched"] != "yes" {
			return fmt.Errorf("patch: %v %w", patched.GetAnnotations(), err)
		}
	}
	if err := watched(ctx, client); err != nil {
		return err
	}
	made.SetUID("")
	made.SetResourceVersion("1")
	if _, err := client.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("stale update: %v", err)
	}
	none := int64(0)
	at := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{GracePeriodSeconds: &none, PropagationPolicy: &at}
	if err := client.Delete(ctx, made.GetName(), options); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return eventually(ctx, func() error {
		if _, err := client.Get(ctx, made.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("after the delete: %v", err)
		}
		return nil
	})
}

// unchanged writes an object back as it was read: Go's zeroes must not be taken for changes.
func unchanged[T metav1.Object, L runtime.Object](ctx context.Context, client typedClient[T, L], name string) error {
	read, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	before := read.GetResourceVersion()
	written, err := client.Update(ctx, read, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	if written.GetResourceVersion() != before {
		return fmt.Errorf("an update with what was read made %s of %s: %+v", written.GetResourceVersion(), before, written)
	}
	return nil
}

// watched lists, and sees by a watch from there on what the list has.
func watched[T metav1.Object, L runtime.Object](ctx context.Context, client typedClient[T, L]) error {
	if _, err := client.List(ctx, metav1.ListOptions{LabelSelector: "app=sample"}); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	watcher, err := client.Watch(ctx, metav1.ListOptions{LabelSelector: "app=sample"})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watcher.Stop()
	select {
	case event := <-watcher.ResultChan():
		if event.Type != watch.Added {
			return fmt.Errorf("watch: %v %+v", event.Type, event.Object)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("watch: %w", ctx.Err())
	}
}
