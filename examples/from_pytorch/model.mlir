module @IrToHlo.164 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<5xf32>, %arg1: tensor<5x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x8x3x3xf32>, %arg5: tensor<8xf32>, %arg6: tensor<8xf32>, %arg7: tensor<8xf32>, %arg8: tensor<8xf32>, %arg9: tensor<8x3x3x3xf32>, %arg10: tensor<2x3x8x8xf32>, %arg11: tensor<16xf32>) -> tensor<2x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<2xf32>
    %cst_1 = stablehlo.constant dense<2.500000e-01> : tensor<2x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<2x16x2x2xf32>
    %cst_3 = stablehlo.constant dense<0.707106769> : tensor<2x16x2x2xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<2x16x2x2xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<2x8x8x8xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convolution(%arg10, %arg9) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x8x8xf32>
    %1 = "stablehlo.batch_norm_inference"(%0, %arg8, %arg7, %arg6, %arg5) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x8x8xf32>
    %2 = stablehlo.maximum %1, %cst_5 : tensor<2x8x8x8xf32>
    %3 = "stablehlo.reduce_window"(%2, %cst_6) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg12: tensor<f32>, %arg13: tensor<f32>):
      %31 = stablehlo.maximum %arg12, %arg13 : tensor<f32>
      stablehlo.return %31 : tensor<f32>
    }) : (tensor<2x8x8x8xf32>, tensor<f32>) -> tensor<2x8x4x4xf32>
    %4 = stablehlo.convolution(%3, %arg4) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x4x4xf32>, tensor<16x8x3x3xf32>) -> tensor<2x16x2x2xf32>
    %5 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<16xf32>) -> tensor<2x16x2x2xf32>
    %6 = stablehlo.add %4, %5 : tensor<2x16x2x2xf32>
    %7 = stablehlo.multiply %6, %cst_4 : tensor<2x16x2x2xf32>
    %8 = stablehlo.multiply %6, %cst_3 : tensor<2x16x2x2xf32>
    %9 = stablehlo.custom_call @mhlo.erf(%8) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x16x2x2xf32>) -> tensor<2x16x2x2xf32>
    %10 = stablehlo.add %9, %cst_2 : tensor<2x16x2x2xf32>
    %11 = stablehlo.multiply %7, %10 : tensor<2x16x2x2xf32>
    %12 = stablehlo.reduce(%11 init: %cst_7) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x16x2x2xf32>, tensor<f32>) -> tensor<2x16xf32>
    %13 = stablehlo.multiply %12, %cst_1 : tensor<2x16xf32>
    %14 = stablehlo.reshape %13 : (tensor<2x16xf32>) -> tensor<1x2x16xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%14, %cst_0, %cst) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x2x16xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<1x2x16xf32>, tensor<2xf32>, tensor<2xf32>)
    %15 = stablehlo.broadcast_in_dim %arg11, dims = [1] : (tensor<16xf32>) -> tensor<2x16xf32>
    %16 = stablehlo.reshape %output : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
    %17 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf32>) -> tensor<2x16xf32>
    %18 = stablehlo.multiply %16, %17 : tensor<2x16xf32>
    %19 = stablehlo.add %15, %18 : tensor<2x16xf32>
    %20 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,5]{0,1}"} : (tensor<5x16xf32>) -> tensor<16x5xf32>
    %21 = stablehlo.dot_general %19, %20, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16xf32>, tensor<16x5xf32>) -> tensor<2x5xf32>
    %22 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<5xf32>) -> tensor<2x5xf32>
    %23 = stablehlo.add %21, %22 : tensor<2x5xf32>
    %24 = stablehlo.reduce(%23 init: %cst_6) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %26 = stablehlo.subtract %23, %25 : tensor<2x5xf32>
    %27 = stablehlo.exponential %26 : tensor<2x5xf32>
    %28 = stablehlo.reduce(%27 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
    %30 = stablehlo.divide %27, %29 : tensor<2x5xf32>
    return %30 : tensor<2x5xf32>
  }
}
