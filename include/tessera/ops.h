// SPDX-License-Identifier: Apache-2.0
// All operations on arrays.
#pragma once

#include <tessera/ops/attention.h>
#include <tessera/ops/convolution.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/fft.h>
#include <tessera/ops/gather_scatter.h>
#include <tessera/ops/grids.h>
#include <tessera/ops/histograms.h>
#include <tessera/ops/indexed_update.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/layers.h>
#include <tessera/ops/mapped.h>
#include <tessera/ops/names.h>
#include <tessera/ops/nn.h>
#include <tessera/ops/normalization.h>
#include <tessera/ops/numeric.h>
#include <tessera/ops/order.h>
#include <tessera/ops/pieces.h>
#include <tessera/ops/pooling.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/sampled.h>
#include <tessera/ops/sets.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>
#include <tessera/ops/special.h>
#include <tessera/ops/statistics.h>
#include <tessera/ops/vectors.h>
#include <tessera/ops/window_padding.h>
