"""Expressions of Prometheus: which parse, and which metrics they refer to."""

from __future__ import annotations

import pytest

from kubewright.testing.levels._promql import PromQLError, metrics_in

VALID = {
    "up": {"up"},
    'up{job="store"} == 0': {"up"},
    "sum by (name) (rate(http_requests_total[5m]))": {"http_requests_total"},
    "sum(rate(http_requests_total[5m])) without (pod) / 2": {"http_requests_total"},
    "histogram_quantile(0.99, sum by (le) (rate(latency_bucket{code=~'2..'}[5m])))": {"latency_bucket"},
    "a / on (pod) group_left (node) b": {"a", "b"},
    "a > bool 1 and b unless c": {"a", "b", "c"},
    "max_over_time(rate(a[1m])[30m:1m]) offset 1h": {"a"},
    "rate(a[5m:] offset -5m)": {"a"},
    "rate(a[5m] @ end())": {"a"},
    "-a ^ 2 % 3": {"a"},
    "topk(3, a)": {"a"},
    'label_replace(a, "x", "$1", "y", "(.*)")': {"a"},
    "absent(a) or vector(0)": {"a"},
    "time() - a > 60 * 86400": {"a"},
    '{__name__="a"}': {"a"},
    '{"a.b", job="x"}': {"a.b"},
    "predict_linear(free_bytes[1h], 4 * 3600) < 0 # soon full": {"free_bytes"},
    "count_values('version', build)": {"build"},
    "a:b:rate5m > Inf": {"a:b:rate5m"},
}

BROKEN = {
    "": "end of the expression",
    "sum(a": "end of the expression",
    "a b": 'unexpected "b"',
    "rate(a)": "rate needs a range: rate(metric[5m])",
    "sum(a[5m])": "sum cannot take a range",
    "rates(a[5m])": "unknown function rates; did you mean rate?",
    "rate(a[5m], 1)": "rate takes 1 arguments, not 2",
    "a[5m]": "a range such as metric[5m] is not a result",
    "a[5m] > 1": "cannot take a range",
    'a{job=~"("}': "not a regular expression",
    "a{job=b}": "a text in quotes",
    "{}": "a selector without a metric",
    "a ? b": "unexpected '?' at character 3",
    "(" * 200: "nested more than",
}


@pytest.mark.parametrize("expression", VALID)
def test_the_metrics_of_an_expression_are_found(expression: str) -> None:
    assert metrics_in(expression) == VALID[expression]


@pytest.mark.parametrize("expression", BROKEN)
def test_an_expression_that_prometheus_rejects_is_rejected(expression: str) -> None:
    with pytest.raises(PromQLError) as caught:
        metrics_in(expression)
    assert BROKEN[expression] in str(caught.value)
