package main

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "clients.example/cleanup"

// runManager runs a controller-runtime manager whose controller makes a ConfigMap and a Deployment of each App.
func runManager(ctx context.Context, config *rest.Config, namespace string) error {
	log.SetLogger(klog.Background())
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		return err
	}
	if err := apiextensionsv1.AddToScheme(all); err != nil {
		return err
	}
	all.AddKnownTypes(groupVersion, &App{}, &AppList{})
	metav1.AddToGroupVersion(all, groupVersion)
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: all}
	if _, err := envtest.InstallCRDs(config, options); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer func() { _ = envtest.UninstallCRDs(config, options) }()
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  all,
		Metrics:                 server.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "clients",
		LeaderElectionNamespace: namespace,
	})
	if err != nil {
		return err
	}
	reconciler := &reconciler{manager.GetClient()}
	err = ctrl.NewControllerManagedBy(manager).For(&App{}).Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(reconciler)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(ctx) }()
	direct, err := client.New(config, client.Options{Scheme: all})
	if err == nil {
		err = walk(ctx, direct, namespace)
	}
	stop()
	if failed := <-stopped; err == nil {
		err = failed
	}
	return err
}

// walk creates, changes and deletes an App, undoes some of what its controller did, and looks whether that comes back.
func walk(ctx context.Context, direct client.Client, namespace string) error {
	app := &App{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: namespace}, Spec: AppSpec{Image: "nginx:1"}}
	if err := direct.Create(ctx, app); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if *app.Spec.Replicas != 1 {
		return fmt.Errorf("default: %+v", app.Spec)
	}
	key := client.ObjectKeyFromObject(app)
	if err := eventually(ctx, func() error { return ready(ctx, direct, app) }); err != nil {
		return fmt.Errorf("created: %w", err)
	}
	owned := &corev1.ConfigMap{}
	if err := direct.Get(ctx, key, owned); err != nil {
		return err
	}
	if err := direct.Delete(ctx, owned); err != nil {
		return err
	}
	if err := eventually(ctx, func() error { return direct.Get(ctx, key, &corev1.ConfigMap{}) }); err != nil {
		return fmt.Errorf("deleted by hand: %w", err)
	}
	patch := client.MergeFromWithOptions(app.DeepCopy(), client.MergeFromWithOptimisticLock{})
	app.Spec.Image = "nginx:2"
	if err := direct.Patch(ctx, app, patch); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if err := eventually(ctx, func() error { return ready(ctx, direct, app) }); err != nil {
		return fmt.Errorf("changed: %w", err)
	}
	if err := direct.Delete(ctx, app, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return eventually(ctx, func() error {
		for _, each := range []client.Object{&App{}, &corev1.ConfigMap{}, &appsv1.Deployment{}} {
			if err := direct.Get(ctx, key, each); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%T is still there: %v", each, err)
			}
		}
		return nil
	})
}

// ready reads the App anew and says what it lacks.
func ready(ctx context.Context, direct client.Client, app *App) error {
	key := client.ObjectKeyFromObject(app)
	if err := direct.Get(ctx, key, app); err != nil {
		return err
	}
	condition := apimeta.FindStatusCondition(app.Status.Conditions, "Ready")
	if condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != app.Generation {
		return fmt.Errorf("generation %d: %+v", app.Generation, condition)
	}
	deployed := &appsv1.Deployment{}
	if err := direct.Get(ctx, key, deployed); err != nil {
		return err
	}
	if image := deployed.Spec.Template.Spec.Containers[0].Image; image != app.Spec.Image {
		return fmt.Errorf("image %s", image)
	}
	return nil
}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	app := &App{}
	if err := r.Get(ctx, request.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(app, finalizer) {
			return ctrl.Result{}, r.Update(ctx, app)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		return ctrl.Result{}, r.Update(ctx, app)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"image": app.Spec.Image}
		return controllerutil.SetControllerReference(app, settings, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.deploy(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	before := app.DeepCopyObject().(*App)
	apimeta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Deployed", ObservedGeneration: app.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, app.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, app)
}

func (r *reconciler) deploy(ctx context.Context, app *App) error {
	deployed := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployed, func() error {
		own := maps.Clone(labels)
		deployed.Spec.Replicas = app.Spec.Replicas
		deployed.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
		deployed.Spec.Template.Labels = own
		if len(deployed.Spec.Template.Spec.Containers) == 0 {
			deployed.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
		}
		deployed.Spec.Template.Spec.Containers[0].Name = "main"
		deployed.Spec.Template.Spec.Containers[0].Image = app.Spec.Image
		return controllerutil.SetControllerReference(app, deployed, r.Scheme())
	})
	return err
}
