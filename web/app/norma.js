// norma in the page: the program's WebAssembly, the few calls of a system that
// it makes, and its functions for the figures. Files travel in scripts
// (window.normaFiles), because a page on a disk may not fetch.
'use strict';

// Fields of Norm (norm.h) and of Config (model.h), in words of 4 bytes.
const NORM = {
  kind: 0,
  eps: 1,
  gamma: 2,
  beta: 3,
  words: 5
};
const CONFIG = ['dim', 'hiddenDim', 'layers', 'heads', 'kvHeads', 'headSize', 'vocabSize'];
const SITES = ['attn', 'mlp'];
const VECTORS = ['x', 'xn', 'q', 'k', 'v', 'heads', 'gated'];  // page_vectors()
const DISK = 3, OPENED = 4;  // file descriptors: the folder of the files; the first open file

// A module of one function: f(a, b, c) is the relaxed madd a * b + c.
const MADD = [
  0,    0x61, 0x73, 0x6d, 1,    0,    0,    0,                       // version 1
  1,    8,    1,    0x60, 3,    0x7d, 0x7d, 0x7d, 1,    0x7d,        // (f32, f32, f32) -> f32
  3,    2,    1,    0,    7,    5,    1,    1,    0x66, 0,    0,     // function 0, exported as f
  0x0a, 0x16, 1,    0x14, 0,                                         // its code:
  0x20, 0,    0xfd, 0x13, 0x20, 1,    0xfd, 0x13, 0x20, 2,    0xfd, 0x13,  // splat a, b, c
  0xfd, 0x85, 2,    0xfd, 0x1f, 0,    0x0b                           // madd; lane 0
];

// Whether this engine has relaxed SIMD and rounds its madd once. The square of 1 + 2^-12 needs 25
// bits: rounded before the sum, its last bit is lost.
function fusesMadd() {
  const bytes = new Uint8Array(MADD);
  if (!WebAssembly.validate(bytes)) return false;
  const {f} = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
  return f(1 + 2 ** -12, 1 + 2 ** -12, -1 - 2 ** -11) === 2 ** -24;
}

const ALL_LAYERS = -2, OWN_KIND = -1;  // of page_swap()
const KINDS_OF_NORMS = {
  own: OWN_KIND,
  rms: 0,
  layer: 1,
  none: 2
};  // of norm.h
// Of a model's files. The program's memory has 2 GB, for the file and for what norma makes of it.
const MAX_BYTES = 900e6;
const gigabytes = (n) => `${(n / 1e9).toFixed(2)} GB`;

class Norma {
  // Starts a build of norma, of which `bytes` are given.
  static async start(bytes) {
    const norma = new Norma();
    norma.messages = '';
    norma.files = {};   // {path: bytes}
    norma.opened = [];  // of each descriptor: {bytes, at}
    const {instance} =
        await WebAssembly.instantiate(bytes, {wasi_snapshot_preview1: norma.system()});
    norma.c = instance.exports;
    norma.c._initialize();
    norma.word = norma.c.malloc(4);
    return norma;
  }

  get bytes() {
    return new Uint8Array(this.c.memory.buffer);
  }
  get view() {
    return new DataView(this.c.memory.buffer);
  }
  floats(at, n) {
    return new Float32Array(this.c.memory.buffer, at, n);
  }

  // What WASI's C library asks for: files to read, a clock, random bytes, standard error.
  system() {
    const none = 44, refused = 52;
    const name = (at, n) => new TextDecoder().decode(this.bytes.slice(at, at + n));
    const read = (file, parts, n, got) => {
      let total = 0;
      for (let i = 0; i < n; i++) {
        const to = this.view.getUint32(parts + 8 * i, true);
        const part =
            file.bytes.subarray(file.at, file.at + this.view.getUint32(parts + 8 * i + 4, true));
        this.bytes.set(part, to);
        file.at += part.length;
        total += part.length;
      }
      this.view.setUint32(got, total, true);
      return 0;
    };
    const isFolder = (path) => Object.keys(this.files).some((f) => f.startsWith(`${path}/`));
    const status = (to, size, kind = 4) => {  // 4: a regular file, 3: a folder
      this.bytes.fill(0, to, to + 64);
      this.view.setBigUint64(to + 8, 1n, true);  // an inode, so that no file is one without a number
      this.view.setUint8(to + 16, kind);
      this.view.setBigUint64(to + 32, BigInt(size), true);
      return 0;
    };
    const calls = {
      fd_prestat_get: (fd, to) => {
        if (fd !== DISK) return 8;
        this.view.setUint32(to, 0, true);
        this.view.setUint32(to + 4, 1, true);
        return 0;
      },
      fd_prestat_dir_name: (_fd, to) => {
        this.bytes[to] = '/'.charCodeAt(0);
        return 0;
      },
      path_open: (_folder, _flags, at, n, _how, _rights, _inherit, _mode, to) => {
        const bytes = this.files[name(at, n)];
        if (!bytes) return none;
        this.view.setUint32(to, OPENED + this.opened.push({bytes, at: 0}) - 1, true);
        return 0;
      },
      path_filestat_get: (_folder, _flags, at, n, to) => {
        const path = name(at, n), bytes = this.files[path];
        if (bytes) return status(to, bytes.length);
        return isFolder(path) ? status(to, 0, 3) : none;
      },
      fd_filestat_get: (fd, to) => status(to, this.opened[fd - OPENED].bytes.length),
      fd_fdstat_get: (_fd, to) => {
        this.bytes.fill(0, to, to + 24);
        this.view.setUint8(to, 4);
        return 0;
      },
      fd_close: () => 0,
      fd_seek: (fd, offset, from, to) => {
        const file = this.opened[fd - OPENED];
        file.at = Number(offset) + [0, file.at, file.bytes.length][from];
        this.view.setBigUint64(to, BigInt(file.at), true);
        return 0;
      },
      fd_read: (fd, parts, n, got) => read(this.opened[fd - OPENED], parts, n, got),
      fd_pread: (fd, parts, n, offset, got) =>
          read({bytes: this.opened[fd - OPENED].bytes, at: Number(offset)}, parts, n, got),
      fd_write: (_fd, parts, n, written) => {
        let total = 0;
        for (let i = 0; i < n; i++) {
          const size = this.view.getUint32(parts + 8 * i + 4, true);
          this.messages += name(this.view.getUint32(parts + 8 * i, true), size);
          total += size;
        }
        this.view.setUint32(written, total, true);
        return 0;
      },
      clock_time_get: (_id, _precision, to) => {
        this.view.setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
        return 0;
      },
      random_get: (to, size) => {
        crypto.getRandomValues(this.bytes.subarray(to, to + size));
        return 0;
      },
      environ_sizes_get: (n, size) => {
        this.view.setUint32(n, 0, true);
        this.view.setUint32(size, 0, true);
        return 0;
      },
      environ_get: () => 0,
      proc_exit: (code) => {
        throw new Error(`norma ended with status ${code}`);
      },
    };
    return new Proxy(calls, {get: (all, call) => all[call] ?? (() => refused)});
  }

  // Throws norma's own line, or `what` if norma said nothing, unless `ok`.
  check(ok, what) {
    const said = this.messages.trim().split('\n').pop();
    this.messages = '';
    if (!ok) throw new Error(said || `norma: ${what}`);
  }

  // f(address of the text, its bytes without the final zero)
  withText(text, f) {
    const bytes = new TextEncoder().encode(text + '\0'), at = this.c.malloc(bytes.length);
    this.bytes.set(bytes, at);
    const result = f(at, bytes.length - 1);
    this.c.free(at);
    return result;
  }

  // Opens a model, with a tokenizer.bin or null. A hostile file is an error, by norma's checks or,
  // were one missing, by the sandbox.
  open(model, tokenizer) {
    this.openFiles(tokenizer ? {model, 'tokenizer.bin': tokenizer} : {model});
  }

  // Opens files {path: bytes}: a file "model", perhaps with "tokenizer.bin", or a folder "model/...".
  openFiles(files) {
    const size = Object.values(files).reduce((sum, bytes) => sum + bytes.length, 0);
    if (size > MAX_BYTES)
      throw new Error(`norma: the model has ${gigabytes(size)}, a page can hold ${
          gigabytes(MAX_BYTES)}; use a smaller file (-m convert), or the program`);
    this.files = files;
    this.opened = [];
    const status = files['tokenizer.bin'] ?
        this.withText('/tokenizer.bin', (at) => this.c.page_open(at)) :
        this.c.page_open(0);
    this.check(status === 0, 'the model was refused');
    const words = new Int32Array(this.c.memory.buffer, this.c.page_model(), CONFIG.length);
    this.config = Object.fromEntries(CONFIG.map((name, i) => [name, words[i]]));
    this.own = this.allNorms().map(
        (at) => this.bytes.slice(at, at + 4 * NORM.words));  // the model's norms
    this.silence = this.c.malloc(4 * this.config.dim);
    this.floats(this.silence, this.config.dim).fill(0);
    this.files = {};
    this.opened = [];
  }

  // Addresses: attn_norm and mlp_norm of each layer, the final norm.
  allNorms() {
    const n = this.config.layers;
    return Array.from({length: 2 * n + 1}, (_, i) => this.c.page_norm(i >> 1, i & 1));
  }

  // The norms of --norm's `spec` in place of the model's; eps null: the model's.
  norms(spec, eps) {
    this.allNorms().forEach((at, i) => {
      this.bytes.set(this.own[i], at);
      if (eps !== null) this.view.setFloat32(at + 4 * NORM.eps, eps, true);
    });
    const status =
        spec ? this.withText(spec, (at) => this.c.model_swap_norms(this.c.page_model(), at)) : 0;
    this.check(status === 0, `the norms ${spec} were refused`);
  }

  // Gives all norms a kind of KINDS_OF_NORMS, or those of one layer.
  swap(kind, layer = ALL_LAYERS) {
    this.c.page_swap(layer, KINDS_OF_NORMS[kind]);
  }

  // Makes `text` the text; its token ids.
  encode(text) {
    const n = this.withText(text, (p, size) => this.c.page_text(p, size));
    this.check(n >= 0, 'the text was refused');
    return n ? [...new Int32Array(this.c.memory.buffer, this.c.page_ids(), n)] : [];
  }

  // Runs tokens [first, first + n) of the text. Address of the logits of the last `wanted`.
  run(first, n, wanted) {
    const at = this.c.page_run(first, n, wanted);
    this.check(at, 'the model did not run');
    return at;
  }

  begin(prompt, {temperature = 1, topP = 0.9, seed = 1} = {}) {
    this.length = this.encode(prompt).length;
    this.check(
        this.length, 'the text has no token, and this model begins with none of its own (no BOS)');
    this.check(
        this.c.page_sampler(temperature, topP, seed) === 0, 'the sampler could not be opened');
    this.ran = 0;
    this.stream = new TextDecoder();
  }

  // The text of the next token; null at the end.
  next() {
    let logits;
    for (let n; this.ran < this.length; this.ran += n) {
      n = Math.min(32, this.length - this.ran);
      logits = this.run(this.ran, n, 1);
    }
    const at = this.c.page_draw(logits, this.word);
    this.length++;
    if (!at) return null;
    const size = this.view.getInt32(this.word, true);
    return this.stream.decode(this.bytes.slice(at, at + size), {stream: true});
  }

  // Calls f(position, its logits) for each token of a text; the ids.
  logits(text, f) {
    const ids = this.encode(text), size = this.config.vocabSize;
    this.last = ids.length - 1;
    for (let at = 0; at < ids.length; at += 32) {
      const n = Math.min(32, ids.length - at), logits = this.run(at, n, n);
      for (let i = 0; i < n; i++) f(at + i, this.floats(logits + 4 * i * size, size));
    }
    return ids;
  }

  // RMS, |mean| / RMS and the vector of the stream before each layer and after the last one, for
  // token `index` of a text.
  trace(text, index) {
    const ids = this.encode(text), last = Math.min(index, ids.length - 1);
    for (let at = 0; at <= last; at += 32) this.run(at, Math.min(32, last + 1 - at), 0);
    this.last = last;
    return Array.from({length: this.config.layers + 1}, (_, layer) => this.sizeOf(layer));
  }
  sizeOf(layer) {
    const x = this.vector('x', layer), rms = this.rms(x);
    const mean = x.reduce((sum, v) => sum + v, 0) / x.length;
    return {x, rms, mean: Math.abs(mean) / rms};
  }

  // The page of --profile=x.html of a text, timed here.
  profile(text) {
    this.encode(text);
    const at = this.c.page_profile();
    this.check(at, 'the profile failed');
    const end = this.bytes.indexOf(0, at), page = new TextDecoder().decode(this.bytes.slice(at, end));
    this.c.free(at);
    return page;
  }

  // Nats per token of a text, as -m perplexity counts them.
  nll(text) {
    const ids = this.encode(text);
    let sum = 0;
    this.logits(text, (i, logits) => {
      if (i === this.last) return;
      let max = -Infinity, total = 0;
      for (const z of logits) max = Math.max(max, z);
      for (const z of logits) total += Math.exp(z - max);
      sum += max + Math.log(total) - logits[ids[i + 1]];
    });
    return sum / (ids.length - 1);
  }

  // A vector of the last token of the text that logits() or nll() ran: by the first `layers` layers
  // and, if `attention`, the attention of one more, whose MLP a gamma of zeros silences. Only that
  // token runs again; the cache has the others.
  vector(name, layers, attention = false) {
    const c = this.config, sizes = {
      x: c.dim,
      xn: c.dim,
      q: c.heads * c.headSize,
      k: c.kvHeads * c.headSize,
      v: c.kvHeads * c.headSize,
      heads: c.heads * c.headSize,
      gated: c.hiddenDim
    };
    const count = this.c.page_model() + 4 * CONFIG.indexOf('layers');
    const gamma = this.c.page_norm(layers, 1) + 4 * NORM.gamma;
    const kept = attention ? this.view.getUint32(gamma, true) : 0;
    this.view.setInt32(count, layers + attention, true);
    if (attention) this.view.setUint32(gamma, this.silence, true);
    this.run(this.last, 1, 0);
    this.view.setInt32(count, c.layers, true);
    if (attention) this.view.setUint32(gamma, kept, true);
    return this.floats(this.c.page_vectors(VECTORS.indexOf(name)), sizes[name]).slice();
  }

  // norm(x) of a site: attn_norm 0 or mlp_norm 1 of a layer; after the last layer the final norm.
  normed(layer, site, x) {
    const n = x.length, at = this.c.malloc(4 * n);
    this.floats(at, n).set(x);
    this.c.norm_token(at, at, this.c.page_norm(layer, site), n);
    const y = this.floats(at, n).slice();
    this.c.free(at);
    return y;
  }

  rms(x) {
    const n = x.length, at = this.c.malloc(4 * n);
    this.floats(at, n).set(x);
    const sum = this.c.sum_squares(at, n);
    this.c.free(at);
    return Math.sqrt(sum / n);
  }

  // RMS of the stream at attn_norm and mlp_norm of each layer, for the last token.
  streamRms() {
    return Array.from(
        {length: 2 * this.config.layers},
        (_, i) => this.rms(this.vector('x', i >> 1, i % 2 === 1)));
  }

  // Microseconds of all norms of a token.
  normTime() {
    const norms = this.allNorms(), dim = this.config.dim, times = 1000;
    const at = this.c.malloc(8 * dim);
    this.floats(at, dim).fill(0.5);
    const start = performance.now();
    for (let i = 0; i < times; i++)
      for (const norm of norms) this.c.norm_token(at + 4 * dim, at, norm, dim);
    const spent = performance.now() - start;
    this.c.free(at);
    return spent * 1000 / times;
  }

  // {y, dx} of a norm of x without gamma and beta, for dy = dL/dy. kind 0: RMSNorm, 1: LayerNorm.
  norm(kind, eps, x, dy) {
    const n = x.length, at = this.c.malloc(4 * (6 * n + NORM.words));
    const row = (i) => at + 4 * n * i, norm = row(6);  // x, dy, gamma, dgamma, y, dx
    [x, dy, Array(n).fill(1), Array(n).fill(0)].forEach((v, i) => this.floats(row(i), n).set(v));
    this.bytes.fill(0, norm, norm + 4 * NORM.words);
    this.view.setInt32(norm + 4 * NORM.kind, kind, true);
    this.view.setFloat32(norm + 4 * NORM.eps, eps, true);
    this.view.setUint32(norm + 4 * NORM.gamma, row(2), true);
    this.c.norm_token(row(4), row(0), norm, n);
    this.c.norm_backward(row(5), row(3), 0, row(1), row(0), norm, n);
    const [y, dx] = [4, 5].map((i) => this.floats(row(i), n).slice());
    this.c.free(at);
    return {y, dx};
  }
}

if (typeof module !== 'undefined') module.exports = {Norma, fusesMadd};
