module @IrToHlo.27 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<48xf32>, %arg1: tensor<48x48x1x1xf32>, %arg2: tensor<48xf32>, %arg3: tensor<48x8x3x3xf32>, %arg4: tensor<48xf32>, %arg5: tensor<48x3x3x3xf32>, %arg6: tensor<2x3x32x32xf32>) -> tensor<2x48x16x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x48x16x16xf32>
    %0 = stablehlo.convolution(%arg6, %arg5) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x32x32xf32>, tensor<48x3x3x3xf32>) -> tensor<2x48x16x16xf32>
    %1 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<48xf32>) -> tensor<2x48x16x16xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x48x16x16xf32>
    %3 = stablehlo.maximum %2, %cst : tensor<2x48x16x16xf32>
    %4 = stablehlo.convolution(%3, %arg3) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 6 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x48x16x16xf32>, tensor<48x8x3x3xf32>) -> tensor<2x48x16x16xf32>
    %5 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<48xf32>) -> tensor<2x48x16x16xf32>
    %6 = stablehlo.add %4, %5 : tensor<2x48x16x16xf32>
    %7 = stablehlo.maximum %6, %cst : tensor<2x48x16x16xf32>
    %8 = stablehlo.convolution(%7, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x48x16x16xf32>, tensor<48x48x1x1xf32>) -> tensor<2x48x16x16xf32>
    %9 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<48xf32>) -> tensor<2x48x16x16xf32>
    %10 = stablehlo.add %8, %9 : tensor<2x48x16x16xf32>
    return %10 : tensor<2x48x16x16xf32>
  }
}
