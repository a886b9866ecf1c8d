module @IrToHlo.162 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<24xf32>, %arg1: tensor<24xf32>, %arg2: tensor<24xf32>, %arg3: tensor<24xf32>, %arg4: tensor<24x144x1x1xf32>, %arg5: tensor<144xf32>, %arg6: tensor<144xf32>, %arg7: tensor<144xf32>, %arg8: tensor<144xf32>, %arg9: tensor<144x1x3x3xf32>, %arg10: tensor<144xf32>, %arg11: tensor<144xf32>, %arg12: tensor<144xf32>, %arg13: tensor<144xf32>, %arg14: tensor<144x24x1x1xf32>, %arg15: tensor<24xf32>, %arg16: tensor<24xf32>, %arg17: tensor<24xf32>, %arg18: tensor<24xf32>, %arg19: tensor<24x96x1x1xf32>, %arg20: tensor<96xf32>, %arg21: tensor<96xf32>, %arg22: tensor<96xf32>, %arg23: tensor<96xf32>, %arg24: tensor<96x1x3x3xf32>, %arg25: tensor<96xf32>, %arg26: tensor<96xf32>, %arg27: tensor<96xf32>, %arg28: tensor<96xf32>, %arg29: tensor<96x16x1x1xf32>, %arg30: tensor<16xf32>, %arg31: tensor<16xf32>, %arg32: tensor<16xf32>, %arg33: tensor<16xf32>, %arg34: tensor<16x3x3x3xf32>, %arg35: tensor<2x3x64x64xf32>, %arg36: tensor<96xf32>, %arg37: tensor<96x8x1x1xf32>, %arg38: tensor<8xf32>, %arg39: tensor<8x96x1x1xf32>, %arg40: tensor<144xf32>, %arg41: tensor<144x8x1x1xf32>, %arg42: tensor<8xf32>, %arg43: tensor<8x144x1x1xf32>) -> tensor<2x24x16x16xf32> {
    %cst = stablehlo.constant dense<3.906250e-03> : tensor<2x144xf32>
    %cst_0 = stablehlo.constant dense<3.906250e-03> : tensor<2x96xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convolution(%arg35, %arg34) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x64x64xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x32x32xf32>
    %1 = "stablehlo.batch_norm_inference"(%0, %arg33, %arg32, %arg31, %arg30) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16x32x32xf32>
    %2 = stablehlo.logistic %1 : tensor<2x16x32x32xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<2x16x32x32xf32>
    %4 = stablehlo.convolution(%3, %arg29) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x32x32xf32>, tensor<96x16x1x1xf32>) -> tensor<2x96x32x32xf32>
    %5 = "stablehlo.batch_norm_inference"(%4, %arg28, %arg27, %arg26, %arg25) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x96x32x32xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<2x96x32x32xf32>
    %6 = stablehlo.logistic %5 : tensor<2x96x32x32xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<2x96x32x32xf32>
    %8 = stablehlo.convolution(%7, %arg24) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 96 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x96x32x32xf32>, tensor<96x1x3x3xf32>) -> tensor<2x96x16x16xf32>
    %9 = "stablehlo.batch_norm_inference"(%8, %arg23, %arg22, %arg21, %arg20) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x96x16x16xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>) -> tensor<2x96x16x16xf32>
    %10 = stablehlo.logistic %9 : tensor<2x96x16x16xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<2x96x16x16xf32>
    %12 = stablehlo.reduce(%11 init: %cst_1) applies stablehlo.add across dimensions = [3, 2] : (tensor<2x96x16x16xf32>, tensor<f32>) -> tensor<2x96xf32>
    %13 = stablehlo.multiply %12, %cst_0 : tensor<2x96xf32>
    %14 = stablehlo.reshape %13 : (tensor<2x96xf32>) -> tensor<2x96x1x1xf32>
    %15 = stablehlo.convolution(%14, %arg39) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x96x1x1xf32>, tensor<8x96x1x1xf32>) -> tensor<2x8x1x1xf32>
    %16 = stablehlo.broadcast_in_dim %arg38, dims = [1] : (tensor<8xf32>) -> tensor<2x8x1x1xf32>
    %17 = stablehlo.add %15, %16 : tensor<2x8x1x1xf32>
    %18 = stablehlo.logistic %17 : tensor<2x8x1x1xf32>
    %19 = stablehlo.multiply %17, %18 : tensor<2x8x1x1xf32>
    %20 = stablehlo.convolution(%19, %arg37) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x1x1xf32>, tensor<96x8x1x1xf32>) -> tensor<2x96x1x1xf32>
    %21 = stablehlo.broadcast_in_dim %arg36, dims = [1] : (tensor<96xf32>) -> tensor<2x96x1x1xf32>
    %22 = stablehlo.add %20, %21 : tensor<2x96x1x1xf32>
    %23 = stablehlo.logistic %22 : tensor<2x96x1x1xf32>
    %24 = stablehlo.reshape %23 : (tensor<2x96x1x1xf32>) -> tensor<2x96xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<2x96xf32>) -> tensor<2x96x16x16xf32>
    %26 = stablehlo.multiply %25, %11 : tensor<2x96x16x16xf32>
    %27 = stablehlo.convolution(%26, %arg19) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x96x16x16xf32>, tensor<24x96x1x1xf32>) -> tensor<2x24x16x16xf32>
    %28 = "stablehlo.batch_norm_inference"(%27, %arg18, %arg17, %arg16, %arg15) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x24x16x16xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<2x24x16x16xf32>
    %29 = stablehlo.convolution(%28, %arg14) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x24x16x16xf32>, tensor<144x24x1x1xf32>) -> tensor<2x144x16x16xf32>
    %30 = "stablehlo.batch_norm_inference"(%29, %arg13, %arg12, %arg11, %arg10) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x144x16x16xf32>, tensor<144xf32>, tensor<144xf32>, tensor<144xf32>, tensor<144xf32>) -> tensor<2x144x16x16xf32>
    %31 = stablehlo.logistic %30 : tensor<2x144x16x16xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<2x144x16x16xf32>
    %33 = stablehlo.convolution(%32, %arg9) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 144 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x144x16x16xf32>, tensor<144x1x3x3xf32>) -> tensor<2x144x16x16xf32>
    %34 = "stablehlo.batch_norm_inference"(%33, %arg8, %arg7, %arg6, %arg5) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x144x16x16xf32>, tensor<144xf32>, tensor<144xf32>, tensor<144xf32>, tensor<144xf32>) -> tensor<2x144x16x16xf32>
    %35 = stablehlo.logistic %34 : tensor<2x144x16x16xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<2x144x16x16xf32>
    %37 = stablehlo.reduce(%36 init: %cst_1) applies stablehlo.add across dimensions = [3, 2] : (tensor<2x144x16x16xf32>, tensor<f32>) -> tensor<2x144xf32>
    %38 = stablehlo.multiply %37, %cst : tensor<2x144xf32>
    %39 = stablehlo.reshape %38 : (tensor<2x144xf32>) -> tensor<2x144x1x1xf32>
    %40 = stablehlo.convolution(%39, %arg43) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x144x1x1xf32>, tensor<8x144x1x1xf32>) -> tensor<2x8x1x1xf32>
    %41 = stablehlo.broadcast_in_dim %arg42, dims = [1] : (tensor<8xf32>) -> tensor<2x8x1x1xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x8x1x1xf32>
    %43 = stablehlo.logistic %42 : tensor<2x8x1x1xf32>
    %44 = stablehlo.multiply %42, %43 : tensor<2x8x1x1xf32>
    %45 = stablehlo.convolution(%44, %arg41) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x1x1xf32>, tensor<144x8x1x1xf32>) -> tensor<2x144x1x1xf32>
    %46 = stablehlo.broadcast_in_dim %arg40, dims = [1] : (tensor<144xf32>) -> tensor<2x144x1x1xf32>
    %47 = stablehlo.add %45, %46 : tensor<2x144x1x1xf32>
    %48 = stablehlo.logistic %47 : tensor<2x144x1x1xf32>
    %49 = stablehlo.reshape %48 : (tensor<2x144x1x1xf32>) -> tensor<2x144xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<2x144xf32>) -> tensor<2x144x16x16xf32>
    %51 = stablehlo.multiply %50, %36 : tensor<2x144x16x16xf32>
    %52 = stablehlo.convolution(%51, %arg4) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x144x16x16xf32>, tensor<24x144x1x1xf32>) -> tensor<2x24x16x16xf32>
    %53 = "stablehlo.batch_norm_inference"(%52, %arg3, %arg2, %arg1, %arg0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x24x16x16xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<2x24x16x16xf32>
    return %53 : tensor<2x24x16x16xf32>
  }
}
