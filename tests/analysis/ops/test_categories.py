"""Categories: theirs exactly, ours on what they leave as Other."""

from __future__ import annotations

import pytest

from instrumentor_analysis.ops.categories import (
    ORDER,
    category,
    torch_category,
    tt_perf_report_category,
)


def test_theirs_is_the_table_of_tt_perf_report() -> None:
    theirs = pytest.importorskip("tt_perf_report.perf_report")
    for name, ops in theirs.OPERATION_CATEGORIES.items():
        for op in ops:
            assert tt_perf_report_category(f"{op} 32 x 32") == name
            assert category(op) == name


@pytest.mark.parametrize("op", ["Matmul", "TransposeDeviceOperation", "(torch) aten::mm", "Halo"])
def test_ours_never_contradicts_theirs(op: str) -> None:
    assert category(op) == tt_perf_report_category(op) != "Other"


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("MorehAdamWDeviceOperation", "Compute"),
        ("MorehSgdOperation", "Compute"),
        ("MorehClipGradNormStep1Operation", "Compute"),
        ("MorehGetItemOperation", "TM"),
        ("MorehFoldOperation", "TM"),
        ("EmbeddingBackwardDeviceOperation", "Compute"),
        ("GELUBackwardDeviceOperation", "Compute"),
        ("SGDFusedDeviceOperation", "Compute"),
        ("AllReduceDeviceOperation", "CCL"),
        ("MeshPartitionDeviceOperation", "CCL"),
        ("LayerNormPreAllGather", "Compute"),
        ("BroadcastToDeviceOperation", "TM"),
        ("FullDeviceOperation", "TM"),
        ("UpdateKVCacheOperation", "DM"),
        ("ReshapeAndSomethingNew", "TM"),
        ("ttnn::prim::MorehSumOperation", "Compute"),
        ("SomethingNewDeviceOperation", "Other"),
        ("", "Other"),
    ],
)
def test_ops_of_training(op: str, expected: str) -> None:
    assert tt_perf_report_category(op) == "Other"
    assert category(op) == expected


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("aten::addmm", "Compute"),
        ("aten::native_layer_norm_backward", "Compute"),
        ("aten::t", "TM"),
        ("aten::index_select", "TM"),
        ("aten::copy_", "DM"),
        ("aten::_local_scalar_dense", "DM"),
        ("aten::fill_", "DM"),
        ("aten::zero_", "DM"),
        ("aten::mkldnn_rnn_layer", "Compute"),
        ("aten::_cudnn_rnn", "Compute"),
        ("ncclDevKernel_AllReduce_Sum_f32", "CCL"),
        ("enumerate(DataLoader)#x", "Other"),
    ],
)
def test_torch_ops(op: str, expected: str) -> None:
    assert torch_category(op) == expected
    assert expected in ORDER
