// SPDX-License-Identifier: Apache-2.0
// The entire public API.
#pragma once

#include <tessera/abstract_mesh.h>
#include <tessera/array.h>
#include <tessera/associative_scan.h>
#include <tessera/axes_tree.h>
#include <tessera/callable.h>
#include <tessera/check_grads.h>
#include <tessera/collectives.h>
#include <tessera/control_flow.h>
#include <tessera/cost_analysis.h>
#include <tessera/custom_batching.h>
#include <tessera/custom_call.h>
#include <tessera/custom_derivative.h>
#include <tessera/custom_partitioning.h>
#include <tessera/derivatives.h>
#include <tessera/device.h>
#include <tessera/dtype.h>
#include <tessera/error.h>
#include <tessera/explain.h>
#include <tessera/jit.h>
#include <tessera/layouts.h>
#include <tessera/load.h>
#include <tessera/mesh.h>
#include <tessera/ops.h>
#include <tessera/partition_spec.h>
#include <tessera/placement.h>
#include <tessera/random.h>
#include <tessera/shard_map.h>
#include <tessera/sharding.h>
#include <tessera/sharding_rule.h>
#include <tessera/sharding_tree.h>
#include <tessera/tree.h>
#include <tessera/visualize.h>
#include <tessera/visualize_array.h>
#include <tessera/vmap.h>
