// Program certmanager runs cert-manager: the controllers that issue self-signed certificates and those of a CA,
// cainjector, and the webhook.
//
// Usage: certmanager <namespace> <port of the webhook>, with KUBECONFIG set. It runs until it is terminated.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/internal/apis/config/shared"
	webhookconfig "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	cmscheme "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/scheme"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const workers = 2

var used = []string{
	issuers.ControllerName,
	approver.ControllerName,
	ca.CRControllerName,
	selfsigned.CRControllerName,
	issuing.ControllerName,
	keymanager.ControllerName,
	readiness.ControllerName,
	requestmanager.ControllerName,
	revisionmanager.ControllerName,
	trigger.ControllerName,
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: certmanager <namespace> <port>")
		os.Exit(2)
	}
	log.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run ends with the first part that fails, or without an error when ctx is done.
func run(ctx context.Context, namespace, port string) error {
	kubeconfig := os.Getenv("KUBECONFIG")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	ended := make(chan error)
	start := func(part func(context.Context) error) {
		go func() { ended <- part(ctx) }()
	}
	if err := startControllers(ctx, kubeconfig, start); err != nil {
		return err
	}
	start(func(ctx context.Context) error { return inject(ctx, config) })
	start(func(ctx context.Context) error { return serve(ctx, kubeconfig, namespace, number) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func startControllers(ctx context.Context, kubeconfig string, start func(func(context.Context) error)) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   100,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "default"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	known := controller.Known()
	for _, name := range used {
		made, err := known[name](factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		start(func(ctx context.Context) error { return made.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

// inject runs cainjector.
func inject(ctx context.Context, config *rest.Config) error {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, cmscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(all); err != nil {
			return err
		}
	}
	// cainjector takes its field manager from the user agent.
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:  all,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{ReaderFailOnMissingInformer: true},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.CustomResourceDefinitionName:       true,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// serve runs the webhook, which makes its CA itself and keeps it in a Secret.
func serve(ctx context.Context, kubeconfig, namespace string, port int) error {
	name := "cert-manager-webhook." + namespace + ".svc"
	made, err := webhook.NewCertManagerWebhookServer(klog.Background(), webhookconfig.WebhookConfiguration{
		KubeConfig: kubeconfig,
		SecurePort: int32(port),
		TLSConfig: shared.TLSConfig{Dynamic: shared.DynamicServingConfig{
			SecretNamespace: namespace,
			SecretName:      "cert-manager-webhook-ca",
			DNSNames:        []string{name},
			LeafDuration:    24 * time.Hour,
		}},
		MetricsListenAddress: "0",
	})
	if err != nil {
		return err
	}
	return made.Run(ctx)
}
