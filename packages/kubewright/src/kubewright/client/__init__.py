"""Talks to an API server: configuration, typed client, transports, watches.

Config           the server, and the credentials         Client       every verb, typed
ObjectList       a list of objects, with its version     Reader       what Client, CachedClient and Cache share
MergePatch, StrategicPatch, JSONPatch                    WatchEvent   one event of one stream
RESTMapper       the kinds that a server has             Subresource  scale, eviction, token, ...
Unstructured, PartialObjectMetadata                      objects of kinds without a class
document_of, encode_object, decode_object                documents of objects of any kind, and back
Transport        sends requests: HTTPTransport to a server, HandlerTransport to a handler in this process
extract          the fields of an object that one manager applied
"""

from kubewright.client._client import Client as Client
from kubewright.client._config import Config as Config
from kubewright.client._config import ExecPlugin as ExecPlugin
from kubewright.client._config import Impersonation as Impersonation
from kubewright.client._dynamic import PartialObjectMetadata as PartialObjectMetadata
from kubewright.client._dynamic import Unstructured as Unstructured
from kubewright.client._dynamic import decode_object as decode_object
from kubewright.client._dynamic import document_of as document_of
from kubewright.client._dynamic import encode_object as encode_object
from kubewright.client._exec import ExecResult as ExecResult
from kubewright.client._lists import Fields as Fields
from kubewright.client._lists import Labels as Labels
from kubewright.client._lists import ObjectList as ObjectList
from kubewright.client._lists import Reader as Reader
from kubewright.client._managed_fields import extract as extract
from kubewright.client._mapper import RESTMapper as RESTMapper
from kubewright.client._mapper import ServedResource as ServedResource
from kubewright.client._patch import JSONPatch as JSONPatch
from kubewright.client._patch import MergePatch as MergePatch
from kubewright.client._patch import Patch as Patch
from kubewright.client._patch import StrategicPatch as StrategicPatch
from kubewright.client._rest import Bookmark as Bookmark
from kubewright.client._rest import WarningHandler as WarningHandler
from kubewright.client._rest import WatchEvent as WatchEvent
from kubewright.client._transport import HandlerTransport as HandlerTransport
from kubewright.client._transport import HTTPTransport as HTTPTransport
from kubewright.client._transport import Transport as Transport
from kubewright.client._wait import has_condition as has_condition
from kubewright.client._write import FieldValidation as FieldValidation
from kubewright.client._write import Propagation as Propagation
from kubewright.client._write import Subresource as Subresource
from kubewright.client._write import WriteOptions as WriteOptions
