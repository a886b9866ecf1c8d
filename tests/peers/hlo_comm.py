# SPDX-License-Identifier: Apache-2.0
"""Counts the collectives of a partitioned HLO module in text form, and the bytes that one device receives.

    python hlo_comm.py MODULE.hlo [...]      prints one JSON object per file

Reads HLO text after partitioning, XLA's or this project's, so that two partitioners can be compared on one program.
Bytes received per device, b the bytes of the result, n the devices of the largest group:
all-gather b (n-1)/n, all-reduce 2 b (n-1)/n, reduce-scatter b (n-1), all-to-all b (n-1)/n, collective-permute b
(0 if each pair stays on its device), collective-broadcast b, recv b.
A while body counts as often as it runs: "known_trip_count" must say how often if it communicates, else it counts once and
unknown_trip_counts is above 0. Of a conditional's branches the dearest counts. What can't be counted is an error, never a zero.
dot_flops: the multiply-adds, times two, of all dots and convolutions that one device executes, counted in the same way.
"""
import json, re, sys

SIZES = dict(pred=1, s2=1, s4=1, s8=1, s16=2, s32=4, s64=8, u2=1, u4=1, u8=1, u16=2, u32=4, u64=8, bf16=2, f16=2, f32=4, f64=8, c64=8, c128=16, token=0)
KINDS = ('all-gather', 'all-reduce', 'reduce-scatter', 'all-to-all', 'collective-permute', 'collective-broadcast', 'recv')
ARRAY = re.compile(r'\b(pred|token|bf16|f8e\w+|f4e\w+|[sufc]\d+)\[([^\]]*)\]')
INSTR = re.compile(r'\s*(?:ROOT )?%?([\w.\-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([a-z][\w\-]*)\(')

class Uncountable(Exception): pass

def array_bytes(text):
    total = 0
    for kind, dims in ARRAY.findall(text):
        n = SIZES.get(kind, 1)
        for d in filter(None, dims.split(',')): n *= int(d.strip().lstrip('<='))
        total += n
    return total

def elements(shape):
    """The top-level elements of a tuple shape's text."""
    if not shape.startswith('('): return [shape]
    parts, depth, cur = [], 0, ''
    for c in shape[1:-1]:
        if c in '([{': depth += 1
        if c in ')]}': depth -= 1
        if c == ',' and depth == 0: parts.append(cur); cur = ''
        else: cur += c
    return parts + [cur]

def group_size(line, everyone):
    m = re.search(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}", line)       # named axes, sub-axes as 'a':(p)s
    if m:
        sizes = dict(x.strip().replace("'", '').split('=') for x in m.group(1).split(','))
        n = 1
        for name, _, part in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", m.group(2)): n *= int(part or sizes[name])
        return n
    m = re.search(r'replica_groups=\[(\d+),(\d+)\]', line)                     # iota form
    if m: return int(m.group(2))
    m = re.search(r'replica_groups=\{(\{.*?\})\}', line)
    if m: return max(len(g.split(',')) for g in re.findall(r'\{([\d, ]+)\}', m.group(1)))
    if re.search(r'replica_groups=\{\}', line) or 'replica_groups' not in line:
        if not everyone: raise Uncountable('a group of all devices, but the module has no num_partitions or replica_count')
        return everyone
    raise Uncountable(f'replica_groups not understood: {line.strip()[:120]}')

def dims_of(shape):
    m = ARRAY.search(shape)
    return [int(d.strip().lstrip('<=')) for d in m.group(2).split(',') if d.strip()] if m else []

def product(xs):
    n = 1
    for x in xs: n *= x
    return n

def dot_flops_of(line, shape, shapes):
    """2 * multiply-adds of one dot or convolution; operands are looked up by name where their shapes aren't printed."""
    args = re.search(r' (?:dot|convolution)\((.*?)\)', line).group(1)
    inline = ARRAY.findall(args)
    ops = [[int(d) for d in x[1].split(',') if d] for x in inline] if len(inline) >= 2 else [dims_of(shapes.get(a.strip().lstrip('%'), '')) for a in args.split(',')[:2]]
    if ' dot(' in line:
        m = re.search(r'lhs_contracting_dims=\{([\d,]*)\}', line)
        return 2 * product(dims_of(shape)) * product(ops[0][int(d)] for d in (m.group(1).split(',') if m and m.group(1) else []))
    kernel = re.search(r'dim_labels=\w+?_(\w+?)->', line).group(1)
    return 2 * product(dims_of(shape)) * product(ops[1][i] for i, c in enumerate(kernel) if c != 'o')

def comm_stats(text):
    everyone = 0
    for word in ('num_partitions', 'replica_count'):
        m = re.search(word + r'=(\d+)', text)
        if m: everyone = max(everyone, 1) * int(m.group(1))
    comps, cur, entry = {}, None, None
    for line in text.splitlines():
        h = re.match(r'(ENTRY )?%?([\w.\-]+) ?(\(.*\) -> .* )?\{$', line)
        if h and ' = ' not in line.split('{')[0]:
            cur = h.group(2); comps[cur] = []
            if h.group(1): entry = cur
        elif line.startswith('}'): cur = None
        elif cur and ' = ' in line: comps[cur].append(line)
    if not entry: raise Uncountable('no ENTRY computation')
    memo = {}

    def visit(comp):
        if comp in memo: return memo[comp]
        total = {}
        def add(part, times=1):
            for k, (c, b) in part.items():
                c0, b0 = total.get(k, (0, 0)); total[k] = (c0 + c * (times if k == 'dot_flops' else 1), b0 + b * times)
        lines = [(line, m) for line in comps.get(comp, ()) if (m := INSTR.match(line))]
        shapes = {m.group(1): m.group(2) for _, m in lines}
        for line, m in lines:
            _, shape, op = m.groups()
            if op in ('dot', 'convolution'): add({'dot_flops': (dot_flops_of(line, shape, shapes), 0)})
            kind = op[:-6] if op.endswith('-start') else op
            if kind in ('ragged-all-to-all', 'send'): 
                if kind == 'ragged-all-to-all': raise Uncountable('ragged-all-to-all')
                continue
            if kind in KINDS:
                if kind in ('all-gather', 'collective-permute') and op.endswith('-start'): shape = elements(shape)[1]
                b = array_bytes(shape if kind != 'recv' else elements(shape)[0])
                if not ARRAY.search(shape): raise Uncountable(f'no shape: {line.strip()[:120]}')
                if kind == 'collective-permute':
                    pairs = re.findall(r'\{(\d+),(\d+)\}', re.search(r'source_target_pairs=\{(.*?)\}\}|source_target_pairs=(\{\})', line).group(0))
                    got = b if any(s != t for s, t in pairs) else 0
                elif kind in ('collective-broadcast', 'recv'): got = b
                else:
                    n = group_size(line, everyone)
                    got = {'all-gather': b * (n - 1) / n, 'all-reduce': 2 * b * (n - 1) / n, 'reduce-scatter': b * (n - 1), 'all-to-all': b * (n - 1) / n}[kind]
                add({kind: (1, got)})
            elif op == 'while':
                body = re.search(r'body=%?([\w.\-]+)', line).group(1); cond = re.search(r'condition=%?([\w.\-]+)', line).group(1)
                t = re.search(r'known_trip_count\W+n\W+(\d+)', line)
                parts = [visit(body), visit(cond)]
                for p in parts: add(p, int(t.group(1)) if t else 1)
                if not t and any(b for p in parts for k, (c, b) in p.items()): add({'unknown_trip_counts': (1, 0)})
            elif op == 'conditional':
                names = re.findall(r'(?:true|false)_computation=%?([\w.\-]+)', line)
                bc = re.search(r'branch_computations=\{([^}]*)\}', line)
                if bc: names = [x.strip().lstrip('%') for x in bc.group(1).split(',')]
                add(max((visit(n) for n in names), key=lambda p: sum(b for _, b in p.values()), default={}))
            elif op in ('call', 'fusion', 'async-start'):
                for n in re.findall(r'(?:to_apply|calls)=%?([\w.\-]+)', line): add(visit(n))
        memo[comp] = total
        return total

    found = visit(entry)
    unknown, flops = found.pop('unknown_trip_counts', (0, 0))[0], found.pop('dot_flops', (0, 0))[0]
    stats = {k: {'count': c, 'bytes': int(b)} for k, (c, b) in sorted(found.items())}
    stats['total_bytes'] = sum(v['bytes'] for v in stats.values())
    stats['dot_flops'] = flops
    if unknown: stats['unknown_trip_counts'] = unknown
    return stats

if __name__ == '__main__':
    for path in sys.argv[1:]:
        with open(path) as f: print(json.dumps({'file': path, **comm_stats(f.read())}))
