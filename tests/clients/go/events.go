package main

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	newevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// events records through both of Go's recorders; what comes again is counted, not added.
func events(ctx context.Context, config *rest.Config, namespace string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	about, err := clients.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	old := record.NewBroadcaster(record.WithContext(ctx))
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: clients.CoreV1().Events(namespace)})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clients"})
	for range 3 {
		recorder.Eventf(about, corev1.EventTypeNormal, "Old", "told by the old recorder")
	}
	sink := &newevents.EventSinkImpl{Interface: clients.EventsV1()}
	broadcaster := newevents.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	series := broadcaster.NewRecorder(scheme.Scheme, "example.com/clients")
	for times := range int32(2) { // one after the other: the recorder writes each on its own
		series.Eventf(about, nil, corev1.EventTypeWarning, "New", "Testing", "told by the new recorder")
		expected := map[string]int32{"Old": 3, "New": times + 1}
		if err := eventually(ctx, func() error { return recorded(ctx, clients, namespace, expected) }); err != nil {
			return err
		}
	}
	return nil
}

func recorded(ctx context.Context, clients kubernetes.Interface, namespace string, expected map[string]int32) error {
	selector := "involvedObject.name=sample,involvedObject.kind=ConfigMap"
	found, err := clients.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	counts := map[string]int32{}
	for _, each := range found.Items {
		counts[each.Reason] += max(each.Count, 1)
		if each.Series != nil {
			counts[each.Reason] = each.Series.Count
		}
	}
	if len(found.Items) != 2 || !maps.Equal(counts, expected) {
		return fmt.Errorf("%d events, counted %v", len(found.Items), counts)
	}
	return nil
}
