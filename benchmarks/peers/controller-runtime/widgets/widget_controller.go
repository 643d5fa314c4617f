package main

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	benchv1 "kubewright/benchmarks/controller-runtime/api/v1"
)

// WidgetReconciler reconciles a Widget object.
type WidgetReconciler struct {
	client.Client
	Scheme  *runtime.Scheme
	Workers int
}

// Reconcile maintains the ConfigMap of a Widget and reports it in the status.
func (r *WidgetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var widget benchv1.Widget
	if err := r.Get(ctx, req.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !widget.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: widget.Name, Namespace: widget.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, configMap, func() error {
		configMap.Data = map[string]string{
			"message": widget.Spec.Message,
			"size":    strconv.Itoa(int(widget.Spec.Size)),
		}
		return controllerutil.SetControllerReference(&widget, configMap, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}

	changed := meta.SetStatusCondition(&widget.Status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "ConfigMapUpToDate",
		Message:            "the ConfigMap matches the spec",
		ObservedGeneration: widget.Generation,
	})
	if !changed && widget.Status.ObservedGeneration == widget.Generation && widget.Status.ConfigMap == configMap.Name {
		return ctrl.Result{}, nil
	}
	widget.Status.ObservedGeneration = widget.Generation
	widget.Status.ConfigMap = configMap.Name
	return ctrl.Result{}, r.Status().Update(ctx, &widget)
}

// SetupWithManager sets up the controller with the Manager.
func (r *WidgetReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&benchv1.Widget{}).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(r)
}
