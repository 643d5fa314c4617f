"""Talks to an API server: transport, configuration, typed REST client, RESTMapper, watch.

config      Config: where the server is and who we are       transport   the one door to the network
client      Client: every verb, typed                        reader      what Client and Cache have in common
lists       ObjectList, selectors                            patch       MergePatch, StrategicPatch, JSONPatch
watch       events of one stream                             wait        wait_for, has_condition, wait_until_gone
mapper      RESTMapper: which kinds a server has             dynamic     Unstructured, PartialObjectMetadata
extract     of an object, what one manager applied           subresource scale, eviction, token
logs        pod_logs
rest        requests in terms of paths and bytes             tracing     trace context with requests
"""

from kubewright.client.client import Client as Client
from kubewright.client.client import FieldValidation as FieldValidation
from kubewright.client.client import Propagation as Propagation
from kubewright.client.config import Config as Config
from kubewright.client.config import ExecPlugin as ExecPlugin
from kubewright.client.config import Impersonation as Impersonation
from kubewright.client.dynamic import PartialObjectMetadata as PartialObjectMetadata
from kubewright.client.dynamic import Unstructured as Unstructured
from kubewright.client.extract import extract as extract
from kubewright.client.lists import Fields as Fields
from kubewright.client.lists import Labels as Labels
from kubewright.client.lists import ObjectList as ObjectList
from kubewright.client.logs import pod_logs as pod_logs
from kubewright.client.mapper import RESTMapper as RESTMapper
from kubewright.client.mapper import ServedResource as ServedResource
from kubewright.client.patch import JSONPatch as JSONPatch
from kubewright.client.patch import MergePatch as MergePatch
from kubewright.client.patch import Patch as Patch
from kubewright.client.patch import StrategicPatch as StrategicPatch
from kubewright.client.reader import Reader as Reader
from kubewright.client.subresource import Subresource as Subresource
from kubewright.client.transport import Transport as Transport
from kubewright.client.wait import has_condition as has_condition
from kubewright.client.wait import wait_for as wait_for
from kubewright.client.wait import wait_until_gone as wait_until_gone
from kubewright.client.warnings import WarningHandler as WarningHandler
from kubewright.client.watch import Bookmark as Bookmark
from kubewright.client.watch import WatchEvent as WatchEvent
