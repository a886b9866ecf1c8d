module @IrToHlo.279 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16x16x1x1xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16xf32>, %arg9: tensor<16x1x3x3xf32>, %arg10: tensor<16xf32>, %arg11: tensor<16xf32>, %arg12: tensor<16xf32>, %arg13: tensor<16xf32>, %arg14: tensor<16x16x1x1xf32>, %arg15: tensor<16xf32>, %arg16: tensor<16xf32>, %arg17: tensor<16xf32>, %arg18: tensor<16xf32>, %arg19: tensor<16x16x1x1xf32>, %arg20: tensor<16xf32>, %arg21: tensor<16xf32>, %arg22: tensor<16xf32>, %arg23: tensor<16xf32>, %arg24: tensor<16x1x3x3xf32>, %arg25: tensor<16xf32>, %arg26: tensor<16xf32>, %arg27: tensor<16xf32>, %arg28: tensor<16xf32>, %arg29: tensor<16x16x1x1xf32>, %arg30: tensor<32xf32>, %arg31: tensor<32xf32>, %arg32: tensor<32xf32>, %arg33: tensor<32xf32>, %arg34: tensor<32x3x3x3xf32>, %arg35: tensor<2x3x64x64xf32>) -> tensor<2x32x16x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x16x16x16xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<2x32x32x32xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.convolution(%arg35, %arg34) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x64x64xf32>, tensor<32x3x3x3xf32>) -> tensor<2x32x32x32xf32>
    %1 = "stablehlo.batch_norm_inference"(%0, %arg33, %arg32, %arg31, %arg30) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x32x32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<2x32x32x32xf32>
    %2 = stablehlo.maximum %1, %cst_0 : tensor<2x32x32x32xf32>
    %3 = stablehlo.pad %2, %cst_1, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : (tensor<2x32x32x32xf32>, tensor<f32>) -> tensor<2x32x34x34xf32>
    %4 = "stablehlo.reduce_window"(%3, %cst_1) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg36: tensor<f32>, %arg37: tensor<f32>):
      %33 = stablehlo.maximum %arg36, %arg37 : tensor<f32>
      stablehlo.return %33 : tensor<f32>
    }) : (tensor<2x32x34x34xf32>, tensor<f32>) -> tensor<2x32x16x16xf32>
    %5 = stablehlo.slice %4 [0:2, 0:16, 0:16, 0:16] : (tensor<2x32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %6 = stablehlo.slice %4 [0:2, 16:32, 0:16, 0:16] : (tensor<2x32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %7 = stablehlo.convolution(%6, %arg29) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x16xf32>, tensor<16x16x1x1xf32>) -> tensor<2x16x16x16xf32>
    %8 = "stablehlo.batch_norm_inference"(%7, %arg28, %arg27, %arg26, %arg25) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x16x16xf32>
    %9 = stablehlo.maximum %8, %cst : tensor<2x16x16x16xf32>
    %10 = stablehlo.convolution(%9, %arg24) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 16 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x16xf32>, tensor<16x1x3x3xf32>) -> tensor<2x16x16x16xf32>
    %11 = "stablehlo.batch_norm_inference"(%10, %arg23, %arg22, %arg21, %arg20) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x16x16xf32>
    %12 = stablehlo.convolution(%11, %arg19) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x16xf32>, tensor<16x16x1x1xf32>) -> tensor<2x16x16x16xf32>
    %13 = "stablehlo.batch_norm_inference"(%12, %arg18, %arg17, %arg16, %arg15) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x16x16xf32>
    %14 = stablehlo.maximum %13, %cst : tensor<2x16x16x16xf32>
    %15 = stablehlo.concatenate %5, %14, dim = 1 : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xf32>) -> tensor<2x32x16x16xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x32x16x16xf32>) -> tensor<2x2x16x16x16xf32>
    %17 = stablehlo.transpose %16, dims = [0, 2, 1, 3, 4] {result_layout = dense<[4, 3, 1, 2, 0]> : tensor<5xindex>, xla_shape = "f32[2,16,2,16,16]{4,3,1,2,0}"} : (tensor<2x2x16x16x16xf32>) -> tensor<2x16x2x16x16xf32>
    %18 = stablehlo.reshape %17 : (tensor<2x16x2x16x16xf32>) -> tensor<2x32x16x16xf32>
    %19 = stablehlo.slice %18 [0:2, 0:16, 0:16, 0:16] : (tensor<2x32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %20 = stablehlo.slice %18 [0:2, 16:32, 0:16, 0:16] : (tensor<2x32x16x16xf32>) -> tensor<2x16x16x16xf32>
    %21 = stablehlo.convolution(%20, %arg14) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x16xf32>, tensor<16x16x1x1xf32>) -> tensor<2x16x16x16xf32>
    %22 = "stablehlo.batch_norm_inference"(%21, %arg13, %arg12, %arg11, %arg10) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x16x16xf32>
    %23 = stablehlo.maximum %22, %cst : tensor<2x16x16x16xf32>
    %24 = stablehlo.convolution(%23, %arg9) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 16 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x16xf32>, tensor<16x1x3x3xf32>) -> tensor<2x16x16x16xf32>
    %25 = "stablehlo.batch_norm_inference"(%24, %arg8, %arg7, %arg6, %arg5) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x16x16xf32>
    %26 = stablehlo.convolution(%25, %arg4) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x16xf32>, tensor<16x16x1x1xf32>) -> tensor<2x16x16x16xf32>
    %27 = "stablehlo.batch_norm_inference"(%26, %arg3, %arg2, %arg1, %arg0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x16x16xf32>
    %28 = stablehlo.maximum %27, %cst : tensor<2x16x16x16xf32>
    %29 = stablehlo.concatenate %19, %28, dim = 1 : (tensor<2x16x16x16xf32>, tensor<2x16x16x16xf32>) -> tensor<2x32x16x16xf32>
    %30 = stablehlo.reshape %29 : (tensor<2x32x16x16xf32>) -> tensor<2x2x16x16x16xf32>
    %31 = stablehlo.transpose %30, dims = [0, 2, 1, 3, 4] {result_layout = dense<[4, 3, 1, 2, 0]> : tensor<5xindex>, xla_shape = "f32[2,16,2,16,16]{4,3,1,2,0}"} : (tensor<2x2x16x16x16xf32>) -> tensor<2x16x2x16x16xf32>
    %32 = stablehlo.reshape %31 : (tensor<2x16x2x16x16xf32>) -> tensor<2x32x16x16xf32>
    return %32 : tensor<2x32x16x16xf32>
  }
}
