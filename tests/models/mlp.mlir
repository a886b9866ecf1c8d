module @IrToHlo.30 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<10xf32>, %arg1: tensor<10x128xf32>, %arg2: tensor<128xf32>, %arg3: tensor<128x128xf32>, %arg4: tensor<128xf32>, %arg5: tensor<128x64xf32>, %arg6: tensor<1x64xf32>) -> tensor<1x10xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<1x128xf32>
    %0 = stablehlo.transpose %arg5, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,128]{0,1}"} : (tensor<128x64xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.dot_general %arg6, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x64xf32>, tensor<64x128xf32>) -> tensor<1x128xf32>
    %2 = stablehlo.reshape %arg4 : (tensor<128xf32>) -> tensor<1x128xf32>
    %3 = stablehlo.add %1, %2 : tensor<1x128xf32>
    %4 = stablehlo.maximum %3, %cst : tensor<1x128xf32>
    %5 = stablehlo.transpose %arg3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[128,128]{0,1}"} : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %6 = stablehlo.dot_general %4, %5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32>
    %7 = stablehlo.reshape %arg2 : (tensor<128xf32>) -> tensor<1x128xf32>
    %8 = stablehlo.add %6, %7 : tensor<1x128xf32>
    %9 = stablehlo.maximum %8, %cst : tensor<1x128xf32>
    %10 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[128,10]{0,1}"} : (tensor<10x128xf32>) -> tensor<128x10xf32>
    %11 = stablehlo.dot_general %9, %10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128xf32>, tensor<128x10xf32>) -> tensor<1x10xf32>
    %12 = stablehlo.reshape %arg0 : (tensor<10xf32>) -> tensor<1x10xf32>
    %13 = stablehlo.add %11, %12 : tensor<1x10xf32>
    return %13 : tensor<1x10xf32>
  }
}
