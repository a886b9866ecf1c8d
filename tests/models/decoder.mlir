module @IrToHlo.216 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<64x192xf32>, %arg1: tensor<192x64xf32>, %arg2: tensor<64xf32>, %arg3: tensor<64x64xf32>, %arg4: tensor<64x64xf32>, %arg5: tensor<64xf32>, %arg6: tensor<2x32x64xf32>, %arg7: tensor<32x16xf32>, %arg8: tensor<64x64xf32>, %arg9: tensor<32x16xf32>, %arg10: tensor<64x64xf32>, %arg11: tensor<192x64xf32>) -> tensor<2x32x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<32x32xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+09> : tensor<32x32xf32>
    %c = stablehlo.constant dense<1> : tensor<32x32xi64>
    %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<2x4x32x32xf32>
    %cst_2 = stablehlo.constant dense<9.99999997E-7> : tensor<2x32x1xf32>
    %cst_3 = stablehlo.constant dense<1.562500e-02> : tensor<2x32xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c_5 = stablehlo.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : tensor<32xi64>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<2x32x64xf32>
    %0 = stablehlo.power %arg6, %cst_7 : tensor<2x32x64xf32>
    %1 = stablehlo.reduce(%0 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %2 = stablehlo.multiply %1, %cst_3 : tensor<2x32xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %4 = stablehlo.add %3, %cst_2 : tensor<2x32x1xf32>
    %5 = stablehlo.rsqrt %4 : tensor<2x32x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<2x32x1xf32>) -> tensor<2x32xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x64xf32>
    %8 = stablehlo.multiply %arg6, %7 : tensor<2x32x64xf32>
    %9 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xf32>) -> tensor<2x32x64xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<2x32x64xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x32x64xf32>) -> tensor<64x64xf32>
    %12 = stablehlo.transpose %arg10, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,64]{0,1}"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %13 = stablehlo.dot_general %11, %12, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %14 = stablehlo.reshape %13 : (tensor<64x64xf32>) -> tensor<2x32x4x16xf32>
    %15 = stablehlo.transpose %14, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,4,32,16]{3,1,2,0}"} : (tensor<2x32x4x16xf32>) -> tensor<2x4x32x16xf32>
    %16 = stablehlo.broadcast_in_dim %arg9, dims = [2, 3] : (tensor<32x16xf32>) -> tensor<2x4x32x16xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<2x4x32x16xf32>
    %18 = stablehlo.slice %15 [0:2, 0:4, 0:32, 8:16] : (tensor<2x4x32x16xf32>) -> tensor<2x4x32x8xf32>
    %19 = stablehlo.negate %18 : tensor<2x4x32x8xf32>
    %20 = stablehlo.slice %15 [0:2, 0:4, 0:32, 0:8] : (tensor<2x4x32x16xf32>) -> tensor<2x4x32x8xf32>
    %21 = stablehlo.concatenate %19, %20, dim = 3 : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x16xf32>
    %22 = stablehlo.broadcast_in_dim %arg7, dims = [2, 3] : (tensor<32x16xf32>) -> tensor<2x4x32x16xf32>
    %23 = stablehlo.multiply %21, %22 : tensor<2x4x32x16xf32>
    %24 = stablehlo.add %17, %23 : tensor<2x4x32x16xf32>
    %25 = stablehlo.reshape %24 : (tensor<2x4x32x16xf32>) -> tensor<8x32x16xf32>
    %26 = stablehlo.transpose %arg8, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,64]{0,1}"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %27 = stablehlo.dot_general %11, %26, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %28 = stablehlo.reshape %27 : (tensor<64x64xf32>) -> tensor<2x32x4x16xf32>
    %29 = stablehlo.transpose %28, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,4,32,16]{3,1,2,0}"} : (tensor<2x32x4x16xf32>) -> tensor<2x4x32x16xf32>
    %30 = stablehlo.multiply %29, %16 : tensor<2x4x32x16xf32>
    %31 = stablehlo.slice %29 [0:2, 0:4, 0:32, 8:16] : (tensor<2x4x32x16xf32>) -> tensor<2x4x32x8xf32>
    %32 = stablehlo.negate %31 : tensor<2x4x32x8xf32>
    %33 = stablehlo.slice %29 [0:2, 0:4, 0:32, 0:8] : (tensor<2x4x32x16xf32>) -> tensor<2x4x32x8xf32>
    %34 = stablehlo.concatenate %32, %33, dim = 3 : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x16xf32>
    %35 = stablehlo.multiply %34, %22 : tensor<2x4x32x16xf32>
    %36 = stablehlo.add %30, %35 : tensor<2x4x32x16xf32>
    %37 = stablehlo.transpose %36, dims = [0, 1, 3, 2] {result_layout = dense<[2, 3, 1, 0]> : tensor<4xindex>, xla_shape = "f32[2,4,16,32]{2,3,1,0}"} : (tensor<2x4x32x16xf32>) -> tensor<2x4x16x32xf32>
    %38 = stablehlo.reshape %37 : (tensor<2x4x16x32xf32>) -> tensor<8x16x32xf32>
    %39 = stablehlo.dot_general %25, %38, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x16xf32>, tensor<8x16x32xf32>) -> tensor<8x32x32xf32>
    %40 = stablehlo.reshape %39 : (tensor<8x32x32xf32>) -> tensor<2x4x32x32xf32>
    %41 = stablehlo.divide %40, %cst_1 : tensor<2x4x32x32xf32>
    %42 = stablehlo.broadcast_in_dim %c_5, dims = [1] : (tensor<32xi64>) -> tensor<32x32xi64>
    %43 = stablehlo.broadcast_in_dim %c_5, dims = [0] : (tensor<32xi64>) -> tensor<32x32xi64>
    %44 = stablehlo.subtract %42, %43 : tensor<32x32xi64>
    %45 = stablehlo.compare  GE, %44, %c : (tensor<32x32xi64>, tensor<32x32xi64>) -> tensor<32x32xi1>
    %46 = stablehlo.select %45, %cst_0, %cst : tensor<32x32xi1>, tensor<32x32xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [2, 3] : (tensor<32x32xf32>) -> tensor<2x4x32x32xf32>
    %48 = stablehlo.add %41, %47 : tensor<2x4x32x32xf32>
    %49 = stablehlo.reduce(%48 init: %cst_4) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %51 = stablehlo.subtract %48, %50 : tensor<2x4x32x32xf32>
    %52 = stablehlo.exponential %51 : tensor<2x4x32x32xf32>
    %53 = stablehlo.reduce(%52 init: %cst_6) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %55 = stablehlo.divide %52, %54 : tensor<2x4x32x32xf32>
    %56 = stablehlo.reshape %55 : (tensor<2x4x32x32xf32>) -> tensor<8x32x32xf32>
    %57 = stablehlo.transpose %arg4, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,64]{0,1}"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %58 = stablehlo.dot_general %11, %57, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %59 = stablehlo.reshape %58 : (tensor<64x64xf32>) -> tensor<2x32x4x16xf32>
    %60 = stablehlo.transpose %59, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,4,32,16]{3,1,2,0}"} : (tensor<2x32x4x16xf32>) -> tensor<2x4x32x16xf32>
    %61 = stablehlo.reshape %60 : (tensor<2x4x32x16xf32>) -> tensor<8x32x16xf32>
    %62 = stablehlo.dot_general %56, %61, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32x32xf32>, tensor<8x32x16xf32>) -> tensor<8x32x16xf32>
    %63 = stablehlo.reshape %62 : (tensor<8x32x16xf32>) -> tensor<2x4x32x16xf32>
    %64 = stablehlo.transpose %63, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[2,32,4,16]{3,1,2,0}"} : (tensor<2x4x32x16xf32>) -> tensor<2x32x4x16xf32>
    %65 = stablehlo.reshape %64 : (tensor<2x32x4x16xf32>) -> tensor<64x64xf32>
    %66 = stablehlo.transpose %arg3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,64]{0,1}"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %67 = stablehlo.dot_general %65, %66, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %68 = stablehlo.reshape %67 : (tensor<64x64xf32>) -> tensor<2x32x64xf32>
    %69 = stablehlo.add %arg6, %68 : tensor<2x32x64xf32>
    %70 = stablehlo.power %69, %cst_7 : tensor<2x32x64xf32>
    %71 = stablehlo.reduce(%70 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %72 = stablehlo.multiply %71, %cst_3 : tensor<2x32xf32>
    %73 = stablehlo.reshape %72 : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %74 = stablehlo.add %73, %cst_2 : tensor<2x32x1xf32>
    %75 = stablehlo.rsqrt %74 : tensor<2x32x1xf32>
    %76 = stablehlo.reshape %75 : (tensor<2x32x1xf32>) -> tensor<2x32xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x64xf32>
    %78 = stablehlo.multiply %69, %77 : tensor<2x32x64xf32>
    %79 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<64xf32>) -> tensor<2x32x64xf32>
    %80 = stablehlo.multiply %78, %79 : tensor<2x32x64xf32>
    %81 = stablehlo.reshape %80 : (tensor<2x32x64xf32>) -> tensor<64x64xf32>
    %82 = stablehlo.transpose %arg11, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,192]{0,1}"} : (tensor<192x64xf32>) -> tensor<64x192xf32>
    %83 = stablehlo.dot_general %81, %82, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x192xf32>) -> tensor<64x192xf32>
    %84 = stablehlo.reshape %83 : (tensor<64x192xf32>) -> tensor<2x32x192xf32>
    %85 = stablehlo.logistic %84 : tensor<2x32x192xf32>
    %86 = stablehlo.multiply %84, %85 : tensor<2x32x192xf32>
    %87 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[64,192]{0,1}"} : (tensor<192x64xf32>) -> tensor<64x192xf32>
    %88 = stablehlo.dot_general %81, %87, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x64xf32>, tensor<64x192xf32>) -> tensor<64x192xf32>
    %89 = stablehlo.reshape %88 : (tensor<64x192xf32>) -> tensor<2x32x192xf32>
    %90 = stablehlo.multiply %86, %89 : tensor<2x32x192xf32>
    %91 = stablehlo.reshape %90 : (tensor<2x32x192xf32>) -> tensor<64x192xf32>
    %92 = stablehlo.transpose %arg0, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[192,64]{0,1}"} : (tensor<64x192xf32>) -> tensor<192x64xf32>
    %93 = stablehlo.dot_general %91, %92, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x192xf32>, tensor<192x64xf32>) -> tensor<64x64xf32>
    %94 = stablehlo.reshape %93 : (tensor<64x64xf32>) -> tensor<2x32x64xf32>
    %95 = stablehlo.add %69, %94 : tensor<2x32x64xf32>
    return %95 : tensor<2x32x64xf32>
  }
}
