module @IrToHlo.222 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16x32x3x3xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16xf32>, %arg7: tensor<16x3x3x3xf32>, %arg8: tensor<1x3x32x32xf32>, %arg9: tensor<16xf32>, %arg10: tensor<32x16x4x4xf32>, %arg11: tensor<32xf32>, %arg12: tensor<32xf32>, %arg13: tensor<32xf32>, %arg14: tensor<32xf32>, %arg15: tensor<32x16x1x1xf32>, %arg16: tensor<32xf32>, %arg17: tensor<32xf32>, %arg18: tensor<32xf32>, %arg19: tensor<32xf32>, %arg20: tensor<32x32x3x3xf32>, %arg21: tensor<32xf32>, %arg22: tensor<32xf32>, %arg23: tensor<32xf32>, %arg24: tensor<32xf32>, %arg25: tensor<32x16x3x3xf32>, %arg26: tensor<16xf32>) -> tensor<1x16x64x64xf32> {
    %cst = stablehlo.constant dense<3.100000e+01> : tensor<64xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<64x1xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<1x32x16x16xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<1x16x32x32xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.convolution(%arg8, %arg7) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x32x32xf32>
    %1 = "stablehlo.batch_norm_inference"(%0, %arg6, %arg5, %arg4, %arg3) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x16x32x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<1x16x32x32xf32>
    %2 = stablehlo.maximum %1, %cst_6 : tensor<1x16x32x32xf32>
    %3 = "stablehlo.reduce_window"(%2, %cst_7) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg27: tensor<f32>, %arg28: tensor<f32>):
      %49 = stablehlo.maximum %arg27, %arg28 : tensor<f32>
      stablehlo.return %49 : tensor<f32>
    }) : (tensor<1x16x32x32xf32>, tensor<f32>) -> tensor<1x16x16x16xf32>
    %4 = stablehlo.convolution(%3, %arg25) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x16x16x16xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x16x16xf32>
    %5 = "stablehlo.batch_norm_inference"(%4, %arg24, %arg23, %arg22, %arg21) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x32x16x16xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<1x32x16x16xf32>
    %6 = stablehlo.maximum %5, %cst_5 : tensor<1x32x16x16xf32>
    %7 = stablehlo.convolution(%6, %arg20) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x32x16x16xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x16x16xf32>
    %8 = "stablehlo.batch_norm_inference"(%7, %arg19, %arg18, %arg17, %arg16) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x32x16x16xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<1x32x16x16xf32>
    %9 = stablehlo.convolution(%3, %arg15) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x16x16x16xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x16x16xf32>
    %10 = "stablehlo.batch_norm_inference"(%9, %arg14, %arg13, %arg12, %arg11) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x32x16x16xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<1x32x16x16xf32>
    %11 = stablehlo.add %8, %10 : tensor<1x32x16x16xf32>
    %12 = stablehlo.maximum %11, %cst_5 : tensor<1x32x16x16xf32>
    %13 = stablehlo.transpose %arg10, dims = [2, 3, 1, 0] {result_layout = dense<[1, 0, 2, 3]> : tensor<4xindex>, xla_shape = "f32[4,4,16,32]{1,0,2,3}"} : (tensor<32x16x4x4xf32>) -> tensor<4x4x16x32xf32>
    %14 = stablehlo.reverse %13, dims = [0, 1] {result_layout = dense<[1, 0, 2, 3]> : tensor<4xindex>, xla_shape = "f32[4,4,16,32]{1,0,2,3}"} : tensor<4x4x16x32xf32>
    %15 = stablehlo.convolution(%12, %14) dim_numbers = [b, f, 0, 1]x[0, 1, o, i]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x32x16x16xf32>, tensor<4x4x16x32xf32>) -> tensor<1x16x32x32xf32>
    %16 = stablehlo.broadcast_in_dim %arg9, dims = [1] : (tensor<16xf32>) -> tensor<1x16x32x32xf32>
    %17 = stablehlo.add %15, %16 : tensor<1x16x32x32xf32>
    %18 = stablehlo.concatenate %17, %2, dim = 1 : (tensor<1x16x32x32xf32>, tensor<1x16x32x32xf32>) -> tensor<1x32x32x32xf32>
    %19 = stablehlo.convolution(%18, %arg2) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x32x32x32xf32>, tensor<16x32x3x3xf32>) -> tensor<1x16x32x32xf32>
    %20 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<1x16x32x32xf32>
    %21 = stablehlo.add %19, %20 : tensor<1x16x32x32xf32>
    %22 = stablehlo.reshape %21 : (tensor<1x16x32x32xf32>) -> tensor<1x4x4096xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%22, %cst_4, %cst_3) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x4096xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x4096xf32>, tensor<4xf32>, tensor<4xf32>)
    %23 = stablehlo.reduce(%cst_2 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<64x1xf32>, tensor<f32>) -> tensor<64xf32>
    %24 = stablehlo.reshape %23 : (tensor<64xf32>) -> tensor<64x1xf32>
    %25 = stablehlo.divide %cst_2, %24 : tensor<64x1xf32>
    %26 = stablehlo.dot_general %25, %25, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1x64x1xf32>
    %27 = stablehlo.reshape %arg26 : (tensor<16xf32>) -> tensor<1x16xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<1x16x32x32xf32>
    %29 = stablehlo.reshape %output : (tensor<1x4x4096xf32>) -> tensor<1x16x32x32xf32>
    %30 = stablehlo.reshape %arg0 : (tensor<16xf32>) -> tensor<1x16xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<1x16x32x32xf32>
    %32 = stablehlo.multiply %29, %31 : tensor<1x16x32x32xf32>
    %33 = stablehlo.add %28, %32 : tensor<1x16x32x32xf32>
    %34 = stablehlo.logistic %33 : tensor<1x16x32x32xf32>
    %35 = stablehlo.multiply %33, %34 : tensor<1x16x32x32xf32>
    %36 = stablehlo.transpose %35, dims = [0, 3, 2, 1] {result_layout = dense<[1, 2, 3, 0]> : tensor<4xindex>, xla_shape = "f32[1,32,32,16]{1,2,3,0}"} : (tensor<1x16x32x32xf32>) -> tensor<1x32x32x16xf32>
    %37 = stablehlo.iota dim = 0 : tensor<64xf32>
    %38 = stablehlo.multiply %37, %cst_0 : tensor<64xf32>
    %39 = stablehlo.floor %38 : tensor<64xf32>
    %40 = stablehlo.minimum %39, %cst : tensor<64xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0] : (tensor<64xf32>) -> tensor<64x64x1xf32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [1] : (tensor<64xf32>) -> tensor<64x64x1xf32>
    %43 = stablehlo.concatenate %41, %42, dim = 2 : (tensor<64x64x1xf32>, tensor<64x64x1xf32>) -> tensor<64x64x2xf32>
    %44 = stablehlo.convert %43 : (tensor<64x64x2xf32>) -> tensor<64x64x2xi32>
    %45 = "stablehlo.gather"(%36, %44) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2, 3], start_index_map = [1, 2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1, 16>}> : (tensor<1x32x32x16xf32>, tensor<64x64x2xi32>) -> tensor<1x1x1x16x64x64xf32>
    %46 = stablehlo.dot_general %26, %45, batching_dims = [2, 0] x [4, 5], contracting_dims = [3, 1] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<64x1x64x1xf32>, tensor<1x1x1x16x64x64xf32>) -> tensor<64x64x1x16xf32>
    %47 = stablehlo.reshape %46 : (tensor<64x64x1x16xf32>) -> tensor<1x64x64x16xf32>
    %48 = stablehlo.transpose %47, dims = [0, 3, 2, 1] {result_layout = dense<[1, 0, 2, 3]> : tensor<4xindex>, xla_shape = "f32[1,16,64,64]{1,0,2,3}"} : (tensor<1x64x64x16xf32>) -> tensor<1x16x64x64xf32>
    return %48 : tensor<1x16x64x64xf32>
  }
}
