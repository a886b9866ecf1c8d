module @IrToHlo.195 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<64xf32>, %arg1: tensor<64x256xf32>, %arg2: tensor<256xf32>, %arg3: tensor<256x64xf32>, %arg4: tensor<64xf32>, %arg5: tensor<64xf32>, %arg6: tensor<64x1x7x7xf32>, %arg7: tensor<64xf32>, %arg8: tensor<64x32x2x2xf32>, %arg9: tensor<32xf32>, %arg10: tensor<32x128xf32>, %arg11: tensor<128xf32>, %arg12: tensor<128x32xf32>, %arg13: tensor<32xf32>, %arg14: tensor<32xf32>, %arg15: tensor<32x1x7x7xf32>, %arg16: tensor<32xf32>, %arg17: tensor<32x3x4x4xf32>, %arg18: tensor<2x3x64x64xf32>, %arg19: tensor<32xf32>, %arg20: tensor<32x1x1xf32>, %arg21: tensor<64xf32>, %arg22: tensor<64x1x1xf32>) -> tensor<2x64x8x8xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x8x8x256xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<2x8x8x256xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<2x8x8x256xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<128xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<128xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<2x16x16x128xf32>
    %cst_5 = stablehlo.constant dense<0.707106769> : tensor<2x16x16x128xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<2x16x16x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<512xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<512xf32>
    %0 = stablehlo.convolution(%arg18, %arg17) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [4, 4], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x64x64xf32>, tensor<32x3x4x4xf32>) -> tensor<2x32x16x16xf32>
    %1 = stablehlo.broadcast_in_dim %arg16, dims = [1] : (tensor<32xf32>) -> tensor<2x32x16x16xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x32x16x16xf32>
    %3 = stablehlo.convolution(%2, %arg15) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[3, 3], [3, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 32 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x32x16x16xf32>, tensor<32x1x7x7xf32>) -> tensor<2x32x16x16xf32>
    %4 = stablehlo.broadcast_in_dim %arg14, dims = [1] : (tensor<32xf32>) -> tensor<2x32x16x16xf32>
    %5 = stablehlo.add %3, %4 : tensor<2x32x16x16xf32>
    %6 = stablehlo.transpose %5, dims = [0, 2, 3, 1] {result_layout = dense<[2, 1, 3, 0]> : tensor<4xindex>, xla_shape = "f32[2,16,16,32]{2,1,3,0}"} : (tensor<2x32x16x16xf32>) -> tensor<2x16x16x32xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x16x16x32xf32>) -> tensor<1x512x32xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%7, %cst_8, %cst_7) <{epsilon = 9.99999997E-7 : f32, feature_index = 1 : i64}> : (tensor<1x512x32xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<1x512x32xf32>, tensor<512xf32>, tensor<512xf32>)
    %8 = stablehlo.broadcast_in_dim %arg20, dims = [1, 2, 3] : (tensor<32x1x1xf32>) -> tensor<2x32x1x1xf32>
    %9 = stablehlo.reshape %8 : (tensor<2x32x1x1xf32>) -> tensor<2x32xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x16x16xf32>
    %11 = stablehlo.broadcast_in_dim %arg19, dims = [3] : (tensor<32xf32>) -> tensor<2x16x16x32xf32>
    %12 = stablehlo.reshape %output : (tensor<1x512x32xf32>) -> tensor<2x16x16x32xf32>
    %13 = stablehlo.broadcast_in_dim %arg13, dims = [3] : (tensor<32xf32>) -> tensor<2x16x16x32xf32>
    %14 = stablehlo.multiply %12, %13 : tensor<2x16x16x32xf32>
    %15 = stablehlo.add %11, %14 : tensor<2x16x16x32xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x16x16x32xf32>) -> tensor<512x32xf32>
    %17 = stablehlo.transpose %arg12, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[32,128]{0,1}"} : (tensor<128x32xf32>) -> tensor<32x128xf32>
    %18 = stablehlo.dot_general %16, %17, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<512x32xf32>, tensor<32x128xf32>) -> tensor<512x128xf32>
    %19 = stablehlo.broadcast_in_dim %arg11, dims = [1] : (tensor<128xf32>) -> tensor<512x128xf32>
    %20 = stablehlo.add %18, %19 : tensor<512x128xf32>
    %21 = stablehlo.reshape %20 : (tensor<512x128xf32>) -> tensor<2x16x16x128xf32>
    %22 = stablehlo.multiply %21, %cst_6 : tensor<2x16x16x128xf32>
    %23 = stablehlo.multiply %21, %cst_5 : tensor<2x16x16x128xf32>
    %24 = stablehlo.custom_call @mhlo.erf(%23) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x16x16x128xf32>) -> tensor<2x16x16x128xf32>
    %25 = stablehlo.add %24, %cst_4 : tensor<2x16x16x128xf32>
    %26 = stablehlo.multiply %22, %25 : tensor<2x16x16x128xf32>
    %27 = stablehlo.reshape %26 : (tensor<2x16x16x128xf32>) -> tensor<512x128xf32>
    %28 = stablehlo.transpose %arg10, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[128,32]{0,1}"} : (tensor<32x128xf32>) -> tensor<128x32xf32>
    %29 = stablehlo.dot_general %27, %28, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<512x128xf32>, tensor<128x32xf32>) -> tensor<512x32xf32>
    %30 = stablehlo.broadcast_in_dim %arg9, dims = [1] : (tensor<32xf32>) -> tensor<512x32xf32>
    %31 = stablehlo.add %29, %30 : tensor<512x32xf32>
    %32 = stablehlo.reshape %31 : (tensor<512x32xf32>) -> tensor<2x16x16x32xf32>
    %33 = stablehlo.transpose %32, dims = [0, 3, 1, 2] {result_layout = dense<[1, 3, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,32,16,16]{1,3,2,0}"} : (tensor<2x16x16x32xf32>) -> tensor<2x32x16x16xf32>
    %34 = stablehlo.multiply %10, %33 : tensor<2x32x16x16xf32>
    %35 = stablehlo.add %2, %34 : tensor<2x32x16x16xf32>
    %36 = stablehlo.convolution(%35, %arg8) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x32x16x16xf32>, tensor<64x32x2x2xf32>) -> tensor<2x64x8x8xf32>
    %37 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<64xf32>) -> tensor<2x64x8x8xf32>
    %38 = stablehlo.add %36, %37 : tensor<2x64x8x8xf32>
    %39 = stablehlo.convolution(%38, %arg6) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[3, 3], [3, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 64 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x64x8x8xf32>, tensor<64x1x7x7xf32>) -> tensor<2x64x8x8xf32>
    %40 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<64xf32>) -> tensor<2x64x8x8xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x64x8x8xf32>
    %42 = stablehlo.transpose %41, dims = [0, 2, 3, 1] {result_layout = dense<[2, 1, 3, 0]> : tensor<4xindex>, xla_shape = "f32[2,8,8,64]{2,1,3,0}"} : (tensor<2x64x8x8xf32>) -> tensor<2x8x8x64xf32>
    %43 = stablehlo.reshape %42 : (tensor<2x8x8x64xf32>) -> tensor<1x128x64xf32>
    %output_9, %batch_mean_10, %batch_var_11 = "stablehlo.batch_norm_training"(%43, %cst_3, %cst_2) <{epsilon = 9.99999997E-7 : f32, feature_index = 1 : i64}> : (tensor<1x128x64xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<1x128x64xf32>, tensor<128xf32>, tensor<128xf32>)
    %44 = stablehlo.broadcast_in_dim %arg22, dims = [1, 2, 3] : (tensor<64x1x1xf32>) -> tensor<2x64x1x1xf32>
    %45 = stablehlo.reshape %44 : (tensor<2x64x1x1xf32>) -> tensor<2x64xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x8x8xf32>
    %47 = stablehlo.broadcast_in_dim %arg21, dims = [3] : (tensor<64xf32>) -> tensor<2x8x8x64xf32>
    %48 = stablehlo.reshape %output_9 : (tensor<1x128x64xf32>) -> tensor<2x8x8x64xf32>
    %49 = stablehlo.broadcast_in_dim %arg4, dims = [3] : (tensor<64xf32>) -> tensor<2x8x8x64xf32>
    %50 = stablehlo.multiply %48, %49 : tensor<2x8x8x64xf32>
    %51 = stablehlo.add %47, %50 : tensor<2x8x8x64xf32>
    %52 = stablehlo.reshape %51 : (tensor<2x8x8x64xf32>) -> tensor<128x64xf32>
    %53 = stablehlo.transpose %arg3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,256]{0,1}"} : (tensor<256x64xf32>) -> tensor<64x256xf32>
    %54 = stablehlo.dot_general %52, %53, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x64xf32>, tensor<64x256xf32>) -> tensor<128x256xf32>
    %55 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<256xf32>) -> tensor<128x256xf32>
    %56 = stablehlo.add %54, %55 : tensor<128x256xf32>
    %57 = stablehlo.reshape %56 : (tensor<128x256xf32>) -> tensor<2x8x8x256xf32>
    %58 = stablehlo.multiply %57, %cst_1 : tensor<2x8x8x256xf32>
    %59 = stablehlo.multiply %57, %cst_0 : tensor<2x8x8x256xf32>
    %60 = stablehlo.custom_call @mhlo.erf(%59) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2x8x8x256xf32>) -> tensor<2x8x8x256xf32>
    %61 = stablehlo.add %60, %cst : tensor<2x8x8x256xf32>
    %62 = stablehlo.multiply %58, %61 : tensor<2x8x8x256xf32>
    %63 = stablehlo.reshape %62 : (tensor<2x8x8x256xf32>) -> tensor<128x256xf32>
    %64 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[256,64]{0,1}"} : (tensor<64x256xf32>) -> tensor<256x64xf32>
    %65 = stablehlo.dot_general %63, %64, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
    %66 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<64xf32>) -> tensor<128x64xf32>
    %67 = stablehlo.add %65, %66 : tensor<128x64xf32>
    %68 = stablehlo.reshape %67 : (tensor<128x64xf32>) -> tensor<2x8x8x64xf32>
    %69 = stablehlo.transpose %68, dims = [0, 3, 1, 2] {result_layout = dense<[1, 3, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,64,8,8]{1,3,2,0}"} : (tensor<2x8x8x64xf32>) -> tensor<2x64x8x8xf32>
    %70 = stablehlo.multiply %46, %69 : tensor<2x64x8x8xf32>
    %71 = stablehlo.add %38, %70 : tensor<2x64x8x8xf32>
    return %71 : tensor<2x64x8x8xf32>
  }
}
