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

from kubewright.client._client import Client as Client
from kubewright.client._config import Config as Config
from kubewright.client._config import ExecPlugin as ExecPlugin
from kubewright.client._config import Impersonation as Impersonation
from kubewright.client._dynamic import PartialObjectMetadata as PartialObjectMetadata
from kubewright.client._dynamic import Unstructured as Unstructured
from kubewright.client._extract import extract as extract
from kubewright.client._lists import Fields as Fields
from kubewright.client._lists import Labels as Labels
from kubewright.client._lists import ObjectList as ObjectList
from kubewright.client._lists import Reader as Reader
from kubewright.client._mapper import RESTMapper as RESTMapper
from kubewright.client._mapper import ServedResource as ServedResource
from kubewright.client._patch import JSONPatch as JSONPatch
from kubewright.client._patch import MergePatch as MergePatch
from kubewright.client._patch import Patch as Patch
from kubewright.client._patch import StrategicPatch as StrategicPatch
from kubewright.client._rest import WarningHandler as WarningHandler
from kubewright.client._subresource import Subresource as Subresource
from kubewright.client._transport import Transport as Transport
from kubewright.client._wait import has_condition as has_condition
from kubewright.client._watch import Bookmark as Bookmark
from kubewright.client._watch import WatchEvent as WatchEvent
from kubewright.client._write import FieldValidation as FieldValidation
from kubewright.client._write import Propagation as Propagation
from kubewright.client._write import WriteOptions as WriteOptions
