"""Long messages that several tests read: one about a program too large, one about one that fits."""

LONG = """\
RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. \
Used 17.52G of 15.75G hbm. Exceeded hbm capacity by 1.77G.

Total hbm usage >= 17.77G:
    reserved        258.00M
    program          13.52G
    arguments         4.00G (98.4% utilization)

Output size 4.00G (98.4% utilization); shares 2.00G with arguments.

Program hbm requirement 13.52G:
    global            20.0K
    scoped            64.0K
    HLO temp         13.52G (50.0% utilization: Unpadded (6.50G) Padded (13.00G), 3.8% fragmentation (532.48M))

  Largest program allocations in hbm:

  1. Size: 8.00G
     Operator: op_type="dot_general" op_name="jit(train)/decoder/layer_7/dot_general" source_file="/home/me/decoder.py" source_line=41
     Shape: bf16[8,8192,65536]{2,1,0:T(8,128)(2,1)}
     Unpadded size: 8.00G
     XLA label: %fusion.7 = bf16[8,8192,65536]{2,1,0:T(8,128)(2,1)} fusion(bf16[8,8192,512]{2,1,0:T(8,128)(2,1)} %x), kind=kOutput
     Allocation type: HLO temp
     ==========================

  2. Size: 4.00G
     Operator: op_name="jit(train)/one_hot" stack_frame_id=12
     Shape: f32[8388608,3]{1,0:T(8,128)E(32)S(1)}
     Unpadded size: 96.00M
     Extra memory due to padding: 3.91G (42.7x expansion)
     XLA label: %iota.3 = f32[8388608,3]{1,0:T(8,128)} iota(), iota_dimension=1
     Allocation type: HLO temp
     ==========================
"""

FITS = """\
I1130 11:32:23.024432 1 deepsea_compiler_backend.cc:2125] XLA::TPU module name: jit_step
I1130 11:32:23.024436 1 deepsea_compiler_backend.cc:2127] XLA::TPU program HBM usage: 191.81M / 15.75G
I1130 11:32:23.024440 1 deepsea_compiler_backend.cc:2160] XLA::TPU program VMEM usage: 117.10M / 128.00M
I1130 11:32:23.024454 1 deepsea_compiler_backend.cc:2171] Total hbm usage >= 607.07M:
    reserved        258.00M
    program         191.81M
    arguments       157.26M

Output size 153.35M; shares 153.35M with arguments.

Total host usage >= 0B:
    reserved             0B
    program         unknown size
    arguments            0B

Output size 0B; shares 0B with arguments.

I1130 11:32:23.024470 1 deepsea_compiler_backend.cc:2175] Program sflag requirement 252B:
    reserved           204B
    scoped              28B
    HLO temp            20B (100.0% utilization: Unpadded (20B) Padded (20B), 0.0% fragmentation (0B))
Program hbm requirement 191.81M:
    HLO temp        187.80M (100.0% utilization: Unpadded (125.01M) Padded (125.01M), 33.4% fragmentation (62.79M))
    overlays          4.01M
I1130 11:32:23.024472 1 deepsea_compiler_backend.cc:2183] XLA::TPU program SMEM usage: 2.4K / 1.00M (4 parameters)
"""
