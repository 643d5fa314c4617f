package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	benchv1 "kubewright/benchmarks/controller-runtime/api/v1"
)

const (
	secretField             = ".spec.secret"
	secretVersionAnnotation = "bench.kubewright.dev/secret-version"
)

// SiteReconciler reconciles a Site object.
type SiteReconciler struct {
	client.Client
	Scheme  *runtime.Scheme
	Workers int
}

// Reconcile maintains the ConfigMap, the Service and the Deployment of a Site, and reports them in the status.
func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site benchv1.Site
	if err := r.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var secret corev1.Secret
	if err := r.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: site.Spec.Secret}, &secret); err != nil {
		return ctrl.Result{}, err
	}
	for _, maintain := range []func(context.Context, *benchv1.Site, string) error{
		r.configMap, r.service, r.deployment,
	} {
		if err := maintain(ctx, &site, secret.ResourceVersion); err != nil {
			return ctrl.Result{}, err
		}
	}

	changed := meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "ObjectsUpToDate",
		Message:            "the owned objects match the spec",
		ObservedGeneration: site.Generation,
	})
	if !changed && site.Status.ObservedGeneration == site.Generation &&
		site.Status.SecretVersion == secret.ResourceVersion {
		return ctrl.Result{}, nil
	}
	site.Status.ObservedGeneration = site.Generation
	site.Status.SecretVersion = secret.ResourceVersion
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}

func (r *SiteReconciler) configMap(ctx context.Context, site *benchv1.Site, _ string) error {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, configMap, func() error {
		configMap.Data = map[string]string{"message": site.Spec.Message}
		return controllerutil.SetControllerReference(site, configMap, r.Scheme)
	})
	return err
}

func (r *SiteReconciler) service(ctx context.Context, site *benchv1.Site, _ string) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Spec.Selector = map[string]string{"site": site.Name}
		if len(service.Spec.Ports) != 1 {
			service.Spec.Ports = make([]corev1.ServicePort, 1)
		}
		service.Spec.Ports[0].Name = "http"
		service.Spec.Ports[0].Port = 80
		return controllerutil.SetControllerReference(site, service, r.Scheme)
	})
	return err
}

func (r *SiteReconciler) deployment(ctx context.Context, site *benchv1.Site, secretVersion string) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"site": site.Name}
		deployment.Spec.Replicas = &site.Spec.Size
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		template := &deployment.Spec.Template
		template.Labels = labels
		template.Annotations = map[string]string{secretVersionAnnotation: secretVersion}
		if len(template.Spec.Containers) != 1 {
			template.Spec.Containers = make([]corev1.Container, 1)
		}
		template.Spec.Containers[0].Name = "site"
		template.Spec.Containers[0].Image = "nginx:1.29"
		return controllerutil.SetControllerReference(site, deployment, r.Scheme)
	})
	return err
}

// sitesOf returns a request for each Site that refers to a Secret.
func (r *SiteReconciler) sitesOf(ctx context.Context, secret client.Object) []reconcile.Request {
	var sites benchv1.SiteList
	if err := r.List(ctx, &sites, client.InNamespace(secret.GetNamespace()),
		client.MatchingFields{secretField: secret.GetName()}); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, len(sites.Items))
	for i := range sites.Items {
		requests[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sites.Items[i])}
	}
	return requests
}

// SetupWithManager sets up the controller with the Manager.
func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	index := func(object client.Object) []string { return []string{object.(*benchv1.Site).Spec.Secret} }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &benchv1.Site{}, secretField, index); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&benchv1.Site{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&appsv1.Deployment{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.sitesOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(r)
}
