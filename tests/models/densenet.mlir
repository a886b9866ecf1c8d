module @IrToHlo.142 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<12x64x3x3xf32>, %arg1: tensor<64xf32>, %arg2: tensor<64xf32>, %arg3: tensor<64xf32>, %arg4: tensor<64xf32>, %arg5: tensor<12x52x3x3xf32>, %arg6: tensor<52xf32>, %arg7: tensor<52xf32>, %arg8: tensor<52xf32>, %arg9: tensor<52xf32>, %arg10: tensor<12x40x3x3xf32>, %arg11: tensor<40xf32>, %arg12: tensor<40xf32>, %arg13: tensor<40xf32>, %arg14: tensor<40xf32>, %arg15: tensor<12x28x3x3xf32>, %arg16: tensor<28xf32>, %arg17: tensor<28xf32>, %arg18: tensor<28xf32>, %arg19: tensor<28xf32>, %arg20: tensor<12x16x3x3xf32>, %arg21: tensor<16xf32>, %arg22: tensor<16xf32>, %arg23: tensor<16xf32>, %arg24: tensor<16xf32>, %arg25: tensor<16xf32>, %arg26: tensor<16x3x3x3xf32>, %arg27: tensor<2x3x32x32xf32>) -> tensor<2x76x8x8xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<16x16xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<2x64x16x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<2x52x16x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<32x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<2x40x32x32xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<2x28x32x32xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<2x16x32x32xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convolution(%arg27, %arg26) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x32x32xf32>
    %1 = stablehlo.broadcast_in_dim %arg25, dims = [1] : (tensor<16xf32>) -> tensor<2x16x32x32xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x16x32x32xf32>
    %3 = "stablehlo.batch_norm_inference"(%2, %arg24, %arg23, %arg22, %arg21) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x32x32xf32>
    %4 = stablehlo.maximum %3, %cst_5 : tensor<2x16x32x32xf32>
    %5 = stablehlo.convolution(%4, %arg20) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x32x32xf32>, tensor<12x16x3x3xf32>) -> tensor<2x12x32x32xf32>
    %6 = stablehlo.concatenate %2, %5, dim = 1 : (tensor<2x16x32x32xf32>, tensor<2x12x32x32xf32>) -> tensor<2x28x32x32xf32>
    %7 = "stablehlo.batch_norm_inference"(%6, %arg19, %arg18, %arg17, %arg16) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x28x32x32xf32>, tensor<28xf32>, tensor<28xf32>, tensor<28xf32>, tensor<28xf32>) -> tensor<2x28x32x32xf32>
    %8 = stablehlo.maximum %7, %cst_4 : tensor<2x28x32x32xf32>
    %9 = stablehlo.convolution(%8, %arg15) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x32x32xf32>, tensor<12x28x3x3xf32>) -> tensor<2x12x32x32xf32>
    %10 = stablehlo.concatenate %6, %9, dim = 1 : (tensor<2x28x32x32xf32>, tensor<2x12x32x32xf32>) -> tensor<2x40x32x32xf32>
    %11 = "stablehlo.batch_norm_inference"(%10, %arg14, %arg13, %arg12, %arg11) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x40x32x32xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>) -> tensor<2x40x32x32xf32>
    %12 = stablehlo.maximum %11, %cst_3 : tensor<2x40x32x32xf32>
    %13 = stablehlo.convolution(%12, %arg10) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x40x32x32xf32>, tensor<12x40x3x3xf32>) -> tensor<2x12x32x32xf32>
    %14 = stablehlo.concatenate %10, %13, dim = 1 : (tensor<2x40x32x32xf32>, tensor<2x12x32x32xf32>) -> tensor<2x52x32x32xf32>
    %15 = "stablehlo.reduce_window"(%14, %cst_6) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
      %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
      stablehlo.return %31 : tensor<f32>
    }) : (tensor<2x52x32x32xf32>, tensor<f32>) -> tensor<2x52x16x16xf32>
    %16 = "stablehlo.reduce_window"(%cst_2, %cst_6) <{base_dilations = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
      %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
      stablehlo.return %31 : tensor<f32>
    }) : (tensor<32x32xf32>, tensor<f32>) -> tensor<16x16xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [2, 3] : (tensor<16x16xf32>) -> tensor<2x52x16x16xf32>
    %18 = stablehlo.divide %15, %17 : tensor<2x52x16x16xf32>
    %19 = "stablehlo.batch_norm_inference"(%18, %arg9, %arg8, %arg7, %arg6) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x52x16x16xf32>, tensor<52xf32>, tensor<52xf32>, tensor<52xf32>, tensor<52xf32>) -> tensor<2x52x16x16xf32>
    %20 = stablehlo.maximum %19, %cst_1 : tensor<2x52x16x16xf32>
    %21 = stablehlo.convolution(%20, %arg5) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x52x16x16xf32>, tensor<12x52x3x3xf32>) -> tensor<2x12x16x16xf32>
    %22 = stablehlo.concatenate %18, %21, dim = 1 : (tensor<2x52x16x16xf32>, tensor<2x12x16x16xf32>) -> tensor<2x64x16x16xf32>
    %23 = "stablehlo.batch_norm_inference"(%22, %arg4, %arg3, %arg2, %arg1) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<2x64x16x16xf32>
    %24 = stablehlo.maximum %23, %cst_0 : tensor<2x64x16x16xf32>
    %25 = stablehlo.convolution(%24, %arg0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x64x16x16xf32>, tensor<12x64x3x3xf32>) -> tensor<2x12x16x16xf32>
    %26 = stablehlo.concatenate %22, %25, dim = 1 : (tensor<2x64x16x16xf32>, tensor<2x12x16x16xf32>) -> tensor<2x76x16x16xf32>
    %27 = "stablehlo.reduce_window"(%26, %cst_6) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
      %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
      stablehlo.return %31 : tensor<f32>
    }) : (tensor<2x76x16x16xf32>, tensor<f32>) -> tensor<2x76x8x8xf32>
    %28 = "stablehlo.reduce_window"(%cst, %cst_6) <{base_dilations = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
    ^bb0(%arg28: tensor<f32>, %arg29: tensor<f32>):
      %31 = stablehlo.add %arg28, %arg29 : tensor<f32>
      stablehlo.return %31 : tensor<f32>
    }) : (tensor<16x16xf32>, tensor<f32>) -> tensor<8x8xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [2, 3] : (tensor<8x8xf32>) -> tensor<2x76x8x8xf32>
    %30 = stablehlo.divide %27, %29 : tensor<2x76x8x8xf32>
    return %30 : tensor<2x76x8x8xf32>
  }
}
