package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	factory "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// informers sees the life of a ConfigMap through a typed, a dynamic and a metadata informer.
func informers(ctx context.Context, config *rest.Config, namespace string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	before := configMap()
	before.Name = "before"
	if _, err := clients.CoreV1().ConfigMaps(namespace).Create(ctx, before, metav1.CreateOptions{}); err != nil {
		return err
	}
	ofTypes := factory.NewSharedInformerFactoryWithOptions(clients, time.Hour, factory.WithNamespace(namespace))
	dynamics := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, time.Hour, namespace, nil)
	metadatas := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, time.Hour, namespace, nil)
	informers := map[string]cache.SharedIndexInformer{
		"typed":    ofTypes.Core().V1().ConfigMaps().Informer(),
		"dynamic":  dynamics.ForResource(resource).Informer(),
		"metadata": metadatas.ForResource(resource).Informer(),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []error
	for name, informer := range informers {
		if err := follow(ctx, informer, clients, namespace, name); err != nil {
			all = append(all, fmt.Errorf("%s informer: %w", name, err))
		}
	}
	return errors.Join(all...)
}

// journal is what an informer told.
type journal struct {
	sync.Mutex
	lines []string
}

func (j *journal) write(event string, obj any) {
	j.Lock()
	defer j.Unlock()
	j.lines = append(j.lines, event+" "+obj.(metav1.Object).GetName())
}

func (j *journal) has(line string) error {
	j.Lock()
	defer j.Unlock()
	for _, each := range j.lines {
		if each == line {
			return nil
		}
	}
	return fmt.Errorf("no %q in %q", line, j.lines)
}

func follow(ctx context.Context, informer cache.SharedIndexInformer, clients kubernetes.Interface, ns, name string) error {
	told := &journal{}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told.write("add", obj) },
		UpdateFunc: func(_, obj any) { told.write("update", obj) },
		DeleteFunc: func(obj any) { told.write("delete", obj) },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	synced, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !cache.WaitForCacheSync(synced.Done(), informer.HasSynced) {
		return errors.New("not synced")
	}
	obj := configMap()
	obj.Name = name
	configMaps := clients.CoreV1().ConfigMaps(ns)
	if _, err := configMaps.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"data":{"k":"w"}}`)
	if _, err := configMaps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := configMaps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, line := range []string{"add before", "add " + name, "update " + name, "delete " + name} {
		if err := eventually(ctx, func() error { return told.has(line) }); err != nil {
			return err
		}
	}
	return nil
}
