import { afterAll, expect, test } from 'bun:test';
import { inflateSync } from 'node:zlib';
import { startDemoUpstream } from './server.ts';

const demo = startDemoUpstream();
afterAll(() => demo.stop());

async function readJson<Shape>(response: Response): Promise<Shape> {
  return (await response.json()) as Shape;
}

interface Images {
  data: { b64_json: string }[];
  size: string;
  usage: { input_tokens_details: { text_tokens: number; image_tokens: number } };
}

function generate(body: object): Promise<Response> {
  return fetch(`${demo.url}/images/generations`, {
    method: 'POST',
    body: JSON.stringify({ model: 'demo-image', ...body }),
  });
}

async function draw(body: object): Promise<Images> {
  const response = await generate(body);
  expect(response.status).toBe(200);
  return readJson<Images>(response);
}

/** CRC-32 bit by bit, as in the PNG specification: slow, but independent of the encoder. */
function crc(bytes: Uint8Array): number {
  let value = 0xffff_ffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit += 1) value = (value >>> 1) ^ (value & 1 ? 0xedb8_8320 : 0);
  }
  return ~value >>> 0;
}

/** Reads the chunks of a PNG and inflates its pixels. */
function decodePng(base64: string | undefined) {
  const png = Buffer.from(base64 ?? '', 'base64');
  expect(png.toString('hex', 0, 8)).toBe('89504e470d0a1a0a');
  const chunks = new Map<string, Buffer>();
  let at = 8;
  while (at < png.length) {
    const end = at + 8 + png.readUInt32BE(at);
    expect(png.readUInt32BE(end)).toBe(crc(png.subarray(at + 4, end)));
    chunks.set(png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, end));
    at = end + 4;
  }
  expect(at).toBe(png.length);
  expect([...chunks.keys()]).toEqual(['IHDR', 'PLTE', 'IDAT', 'IEND']);
  const header = chunks.get('IHDR') ?? Buffer.alloc(0);
  // 8 bits, palette, deflate, standard filters, not interlaced.
  expect([...header.subarray(8)]).toEqual([8, 3, 0, 0, 0]);
  return {
    width: header.readUInt32BE(0),
    height: header.readUInt32BE(4),
    palette: chunks.get('PLTE') ?? Buffer.alloc(0),
    pixels: inflateSync(chunks.get('IDAT') ?? Buffer.alloc(0)),
  };
}

test('the image is a PNG with valid chunks, checksums, and pixels', async () => {
  const reply = await draw({ prompt: 'the sea', size: '300x200' });
  const png = decodePng(reply.data[0]?.b64_json);
  expect([png.width, png.height, png.palette.length]).toEqual([300, 200, 768]);
  expect(png.pixels.length).toBe(200 * 301);
  expect([png.pixels[1], png.pixels.at(-1)]).toEqual([0, 255]);
  const usage: object = reply.usage;
  expect(usage).toEqual({
    input_tokens: 2,
    input_tokens_details: { text_tokens: 2, image_tokens: 0 },
    output_tokens: 70,
    output_tokens_details: { image_tokens: 70, text_tokens: 0 },
    total_tokens: 72,
  });
});

test('the image is 1024x1024 without a size and with size auto', async () => {
  for (const size of [undefined, null, 'auto']) {
    const reply = await draw({ prompt: 'x', size });
    expect(reply.size).toBe('1024x1024');
    expect(decodePng(reply.data[0]?.b64_json)).toMatchObject({ width: 1_024, height: 1_024 });
  }
});

test('colors depend on the prompt, and several images differ', async () => {
  const palette = async (prompt: string) =>
    decodePng((await draw({ prompt, size: '8x8' })).data[0]?.b64_json).palette.toString('hex');
  expect(await palette('sun')).toBe(await palette('sun'));
  expect(await palette('sun')).not.toBe(await palette('moon'));
  const { data } = await draw({ prompt: 'sun', size: '8x8', n: 3 });
  expect(new Set(data.map((image) => image.b64_json)).size).toBe(3);
});

test('the smallest and the largest image are valid', async () => {
  for (const side of [1, 2_048]) {
    const reply = await draw({ prompt: 'x', size: `${side}x${side}` });
    expect(decodePng(reply.data[0]?.b64_json).pixels.length).toBe(side * (side + 1));
  }
});

test('errors for invalid fields name the field', async () => {
  const cases: [object, string][] = [
    [{}, 'prompt'],
    [{ prompt: 'x', size: '2049x1' }, 'size'],
    [{ prompt: 'x', size: '0x5' }, 'size'],
    [{ prompt: 'x', size: 'big' }, 'size'],
    [{ prompt: 'x', n: 11 }, 'n'],
    [{ prompt: 'x', stream: true }, 'stream'],
    [{ prompt: 'x', response_format: 'url' }, 'response_format'],
  ];
  for (const [body, param] of cases) {
    const response = await generate(body);
    const { error } = await readJson<{ error: { param: string } }>(response);
    expect([response.status, error.param]).toEqual([400, param]);
  }
});

async function picture(size: string): Promise<Blob> {
  const { data } = await draw({ prompt: 'input', size });
  return new Blob([Buffer.from(data[0]?.b64_json ?? '', 'base64')]);
}

function edit(parts: [string, string | Blob][]): Promise<Response> {
  const form = new FormData();
  for (const [name, value] of parts) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, 'input.png');
  }
  return fetch(`${demo.url}/images/edits`, { method: 'POST', body: form });
}

test('an edit has the size of its image unless another is requested', async () => {
  const image = await picture('64x96');
  const same = await readJson<Images>(
    await edit([
      ['prompt', 'hat'],
      ['image', image],
      ['mask', image],
    ]),
  );
  expect(decodePng(same.data[0]?.b64_json)).toMatchObject({ width: 64, height: 96 });
  expect(same.usage.input_tokens_details).toEqual({ text_tokens: 1, image_tokens: 6 });
  const other = await readJson<Images>(
    await edit([
      ['prompt', 'hat'],
      ['image', image],
      ['size', '32x16'],
    ]),
  );
  expect(decodePng(other.data[0]?.b64_json)).toMatchObject({ width: 32, height: 16 });
});

test('several images are accepted as image[]', async () => {
  const [first, second] = [await picture('32x32'), await picture('64x64')];
  const reply = await edit([
    ['prompt', 'hat'],
    ['image[]', first],
    ['image[]', second],
  ]);
  expect((await readJson<Images>(reply)).usage.input_tokens_details.image_tokens).toBe(1 + 4);
});

test('an image with a huge claimed size gives an image within bounds', async () => {
  const bytes = Buffer.from(await (await picture('8x8')).arrayBuffer());
  bytes.writeUInt32BE(4_000_000_000, 16);
  bytes.writeUInt32BE(2_000_000_000, 20);
  const reply = await readJson<Images>(
    await edit([
      ['prompt', 'x'],
      ['image', new Blob([bytes])],
    ]),
  );
  expect(reply.size).toBe('2048x1024');
});

test('edits without a valid image or with a mask of another size are rejected', async () => {
  const image = await picture('8x8');
  const cases: [[string, string | Blob][], string][] = [
    [[['prompt', 'x']], 'image'],
    [
      [
        ['prompt', 'x'],
        ['image', 'not a file'],
      ],
      'image',
    ],
    [
      [
        ['prompt', 'x'],
        ['image', new Blob(['text'])],
      ],
      'image',
    ],
    [
      [
        ['prompt', 'x'],
        ['image', image],
        ['mask', await picture('8x9')],
      ],
      'mask',
    ],
    [[['image', image]], 'prompt'],
    [[['prompt', 'x'], ...Array(17).fill(['image', image])], 'image'],
  ];
  for (const [body, param] of cases) {
    const response = await edit(body);
    const { error } = await readJson<{ error: { param: string } }>(response);
    expect([response.status, error.param]).toEqual([400, param]);
  }
});
