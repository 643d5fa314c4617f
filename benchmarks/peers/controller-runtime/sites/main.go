// The Site operator on controller-runtime: the program that kubebuilder scaffolds, without webhooks.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	benchv1 "kubewright/benchmarks/controller-runtime/api/v1"
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(benchv1.AddToScheme(scheme))
}

func main() {
	var metricsAddr, probeAddr string
	var workers int
	flag.StringVar(&metricsAddr, "metrics-bind-address", "0", "The address the metrics endpoint binds to.")
	flag.StringVar(&probeAddr, "health-probe-bind-address", ":8081", "The address the probe endpoint binds to.")
	flag.IntVar(&workers, "max-concurrent-reconciles", 1, "How many Sites are reconciled at once.")
	opts := zap.Options{}
	opts.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))

	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: metricsAddr},
		HealthProbeBindAddress: probeAddr,
	})
	exitOn(err, "unable to start manager")
	reconciler := &SiteReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), Workers: workers}
	exitOn(reconciler.SetupWithManager(mgr), "unable to create controller")
	exitOn(mgr.AddHealthzCheck("healthz", healthz.Ping), "unable to set up health check")
	exitOn(mgr.AddReadyzCheck("readyz", healthz.Ping), "unable to set up ready check")
	exitOn(mgr.Start(ctrl.SetupSignalHandler()), "problem running manager")
}

func exitOn(err error, message string) {
	if err != nil {
		setupLog.Error(err, message)
		os.Exit(1)
	}
}
