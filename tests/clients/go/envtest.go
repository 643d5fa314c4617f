package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// inEnvtest runs a suite as projects made by kubebuilder do: envtest starts the programs in KUBEBUILDER_ASSETS, and
// installs a CRD and webhooks. It does so twice, since suites of several packages start one environment each.
func inEnvtest(ctx context.Context, _ *rest.Config, namespace string) error {
	log.SetLogger(klog.Background())
	for range 2 {
		if err := oneSuite(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

func oneSuite(ctx context.Context, namespace string) (err error) {
	all, err := hostScheme()
	if err != nil {
		return err
	}
	mutating, validating := hostWebhooksBehindService()
	env := hostEnvironment(all, mutating, validating)
	config, err := env.Start()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() {
		if failed := env.Stop(); err == nil && failed != nil {
			err = fmt.Errorf("stop: %w", failed)
		}
	}()
	if err := userMayOnlyRead(ctx, env, config); err != nil {
		return err
	}
	installed := env.WebhookInstallOptions
	return serveHosts(ctx, config, all, webhook.Options{
		Host: installed.LocalServingHost, Port: installed.LocalServingPort, CertDir: installed.LocalServingCertDir,
	}, func() error { return walkHosts(ctx, config, all, namespace) })
}

// userMayOnlyRead adds a user of a group that may read ConfigMaps, and checks what the user may do.
func userMayOnlyRead(ctx context.Context, env *envtest.Environment, config *rest.Config) error {
	admin, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}
	for _, each := range []client.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "readers"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
			Subjects:   []rbacv1.Subject{group},
		},
	} {
		if err := admin.Create(ctx, each); err != nil {
			return err
		}
	}
	user, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	if err != nil {
		return fmt.Errorf("add user: %w", err)
	}
	jane, err := client.New(user.Config(), client.Options{})
	if err != nil {
		return err
	}
	if err := jane.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("default")); err != nil {
		return err
	}
	made := jane.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}})
	if !apierrors.IsForbidden(made) {
		return fmt.Errorf("a reader created a ConfigMap: %v", made)
	}
	return nil
}
