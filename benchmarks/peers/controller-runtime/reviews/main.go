// The webhooks of Widget on controller-runtime: see benchmarks/peers/__init__.py.
package main

import (
	"context"
	"flag"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	benchv1 "kubewright/benchmarks/controller-runtime/api/v1"
)

// widgetWebhooks sets the defaults of a Widget, and validates it.
type widgetWebhooks struct{}

func (widgetWebhooks) Default(_ context.Context, widget *benchv1.Widget) error {
	if widget.Spec.Message == "" {
		widget.Spec.Message = "hello"
	}
	return nil
}

func (widgetWebhooks) ValidateCreate(_ context.Context, widget *benchv1.Widget) (admission.Warnings, error) {
	return nil, validate(widget)
}

func (widgetWebhooks) ValidateUpdate(_ context.Context, _, widget *benchv1.Widget) (admission.Warnings, error) {
	return nil, validate(widget)
}

func (widgetWebhooks) ValidateDelete(context.Context, *benchv1.Widget) (admission.Warnings, error) {
	return nil, nil
}

func validate(widget *benchv1.Widget) error {
	if widget.Spec.Size <= 1000 {
		return nil
	}
	fault := field.Invalid(field.NewPath("spec", "size"), widget.Spec.Size, "must be at most 1000")
	return apierrors.NewInvalid(benchv1.GroupVersion.WithKind("Widget").GroupKind(), widget.Name, field.ErrorList{fault})
}

func main() {
	var port int
	var certificates string
	flag.IntVar(&port, "webhook-port", 9443, "The port of the webhook server.")
	flag.StringVar(&certificates, "webhook-cert-path", "", "The folder with tls.crt and tls.key.")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(benchv1.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:        scheme,
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Port: port, CertDir: certificates}),
	})
	exitOn(err)
	hooks := widgetWebhooks{}
	exitOn(ctrl.NewWebhookManagedBy(mgr, &benchv1.Widget{}).WithDefaulter(hooks).WithValidator(hooks).Complete())
	exitOn(mgr.Start(ctrl.SetupSignalHandler()))
}

func exitOn(err error) {
	if err != nil {
		ctrl.Log.Error(err, "the program failed")
		os.Exit(1)
	}
}
