"""Keeps a local, indexed copy of objects in sync with the server: reflector, store, informer, lister.

client      CachedClient: reads the cache, writes to the server, sees its own writes
cache       Cache: one informer for each kind        informer   Informer: a kind's copy, and handlers of its changes
lister      reads from one informer's copy           reflector  list and watch, whatever happens
entry       Entry, Event: what handlers receive    store      the objects and their indexes
"""

from kubewright.cache._cache import Cache as Cache
from kubewright.cache._cache import Scope as Scope
from kubewright.cache._client import CachedClient as CachedClient
from kubewright.cache._entry import Entry as Entry
from kubewright.cache._entry import Event as Event
from kubewright.cache._entry import EventType as EventType
from kubewright.cache._entry import ObjectKey as ObjectKey
from kubewright.cache._informer import Informer as Informer
from kubewright.cache._store import IndexFunction as IndexFunction
from kubewright.cache._store import Lister as Lister
from kubewright.cache._store import Namespaces as Namespaces
