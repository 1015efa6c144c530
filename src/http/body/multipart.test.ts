import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { GatewayError } from '../../core/errors.ts';
import { BodySource } from './body-source.ts';
import { readForm } from './multipart.ts';

const fileBytesMax = 1_000;
const posted = (request: Request) => ({ request, requestedModel: '' });

/** A request whose body comes in chunks of the given size. */
function send(body: string | Uint8Array, chunkBytes = 64, type?: string): Request {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body;
  let at = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) controller.close();
      else controller.enqueue(bytes.slice(at, at + chunkBytes));
      at += chunkBytes;
    },
  });
  const headers = { 'content-type': type ?? 'multipart/form-data; boundary=XX' };
  return new Request('http://gateway.test/', { method: 'POST', headers, body: stream });
}

type Seen = Record<string, unknown>;

async function parse(request: Request) {
  const seen: Seen[] = [];
  for await (const part of readForm(posted(request), fileBytesMax)) {
    if (part.kind === 'field') seen.push({ ...part });
    else {
      const bytes = Buffer.concat(await Array.fromAsync(part.chunks));
      seen.push({ ...part, chunks: bytes.toString('latin1') });
    }
  }
  return seen;
}

async function refusal(request: Request) {
  const failure = await failureOf(parse(request));
  if (!(failure instanceof GatewayError)) throw failure;
  return { status: failure.status, message: failure.message, param: failure.param };
}

const field = (name: string, value: string) =>
  `--XX\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const file = (disposition: string, bytes: string) =>
  `--XX\r\nContent-Disposition: form-data; ${disposition}\r\n` +
  `Content-Type: audio/mpeg\r\n\r\n${bytes}\r\n`;

/** Bytes that look like the boundary again and again without being it. */
const teasing = '\r\n--X\r\n--XY\r\n-\r\n--\r\r\n--X';
const whole = [
  field('model', 'demo/transcribe'),
  file('name="file"; filename="a.mp3"', teasing),
  field('prompt', 'Grüße\r\n\r\n--X'),
  '--XX--\r\n',
].join('');
const expected = [
  { kind: 'field', name: 'model', value: 'demo/transcribe' },
  {
    kind: 'file',
    name: 'file',
    filename: 'a.mp3',
    chunks: teasing,
  },
  { kind: 'field', name: 'prompt', value: 'Grüße\r\n\r\n--X' },
];

describe('a form', () => {
  test('may have a kibibyte behind its end, and no more', async () => {
    const sent = (bytes: number) => send(`${field('a', '1')}--XX--${'z'.repeat(bytes)}`, 4_096);
    expect(await parse(sent(1_024))).toEqual([{ kind: 'field', name: 'a', value: '1' }]);
    expect(await refusal(sent(1_025))).toMatchObject({ status: 400 });
  });

  test('may write the names of its headers in capitals', async () => {
    const shouted = '--XX\r\nCONTENT-DISPOSITION: FORM-DATA; NAME="f"; FILENAME="g"\r\n\r\nx\r\n';
    expect(await parse(send(`${shouted}--XX--`, 4_096))).toMatchObject([
      { kind: 'file', name: 'f', filename: 'g' },
    ]);
  });

  test.each([1, 2, 3, 5, 7, 64, 1_000_000])(
    'is read the same in chunks of %d bytes',
    async (chunkBytes) => {
      expect(await parse(send(whole, chunkBytes))).toEqual(expected);
    },
  );

  test.each([1, 64])('may have lines before it, in chunks of %d bytes', async (chunkBytes) => {
    const longest = `${'p'.repeat(1_022)}\r\n`;
    for (const preamble of ['\r\n', '\r\n\r\n', 'For nobody.\r\n-- X\r\n', longest]) {
      expect(await parse(send(preamble + whole, chunkBytes))).toEqual(expected);
    }
    for (const preamble of ['no line: ', '\n', `p${longest}`]) {
      const { message } = await refusal(send(preamble + whole, chunkBytes));
      expect(message).toStartWith('The form does not start with the boundary');
    }
  });

  test('may have blanks behind its boundaries', async () => {
    const padded = whole.replaceAll('--XX\r\n', `--XX${' \t'.repeat(32)}\r\n`);
    expect(await parse(send(padded, 7))).toEqual(expected);
    const { message } = await refusal(send(padded.replace('\t ', '\t  '), 7));
    expect(message).toStartWith('The form is malformed');
  });

  test('may leave the type of a file out', async () => {
    const body =
      '--XX\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nx\r\n--XX--';
    expect(await parse(send(body))).toEqual([
      { kind: 'file', name: 'f', filename: 'f', chunks: 'x' },
    ]);
  });

  test('that the runtime itself writes is understood', async () => {
    const form = new FormData();
    const bytes = crypto.getRandomValues(new Uint8Array(900));
    form.set('file', new File([bytes], 'we "quote" ünïcode.wav', { type: 'audio/wav' }));
    form.set('language', 'de');
    const [sent, language] = await parse(
      new Request('http://gateway.test/', { method: 'POST', body: form }),
    );
    expect(sent).toMatchObject({ kind: 'file', name: 'file' });
    expect(sent?.chunks).toBe(Buffer.from(bytes).toString('latin1'));
    expect(language).toEqual({ kind: 'field', name: 'language', value: 'de' });
  });

  test.each([
    ['name=file; filename=plain.mp3', 'plain.mp3'],
    ['name="file"; filename="say \\"hi\\" \\\\ bye.mp3"', 'say "hi" \\ bye.mp3'],
    ['name="file"; filename="..\\..\\x.mp3"', '..\\..\\x.mp3'],
    ['name="file"; filename="x"; filename*=UTF-8\'\'na%C3%AFve%20name.mp3', 'naïve name.mp3'],
    ["name=file; filename*=iso-8859-1'de'Gr%FC%DFe.mp3", 'Grüße.mp3'],
    ["name=file; filename*=koi8-r''%F0.mp3; filename=plain.mp3", 'plain.mp3'],
    ["name=file; filename*=koi8-r''%F0.mp3", "koi8-r''%F0.mp3"],
    ['filename="a; name=other; filename=b.mp3"; name=file', 'a; name=other; filename=b.mp3'],
    ['name="file"; filename=""', ''],
  ])('gives the file name of %s', async (disposition, filename) => {
    const [seen] = await parse(send(`${file(disposition, 'x')}--XX--`));
    expect(seen).toMatchObject({ kind: 'file', name: 'file', filename });
  });

  test('may have empty fields, empty files and a quoted boundary', async () => {
    const body = `${field('a', '')}${file('name="b"; filename="b"', '')}--XX--`;
    const seen = await parse(send(body, 9, 'multipart/form-data; charset=x; boundary="XX"'));
    expect(seen).toMatchObject([{ value: '' }, { chunks: '' }]);
  });

  test('goes on behind a file that nobody read, or read in part', async () => {
    const body = `${file('name="f"; filename="f"', 'y'.repeat(500))}${field('after', '1')}--XX--`;
    for (const take of [0, 1]) {
      const names: string[] = [];
      for await (const part of readForm(posted(send(body, 50)), fileBytesMax)) {
        names.push(part.name);
        if (part.kind === 'field' || take === 0) continue;
        for await (const _ of part.chunks) break;
      }
      expect(names).toEqual(['f', 'after']);
    }
  });

  test('of exactly the bound is taken, and one byte more is 413', async () => {
    const of = (bytes: number) => `${file('name="f"; filename="f"', 'y'.repeat(bytes))}--XX--`;
    expect((await parse(send(of(1_000)))).length).toBe(1);
    expect(await refusal(send(of(1_001)))).toEqual({
      status: 413,
      message: 'f is larger than the maximum of 1000 bytes.',
      param: 'f',
    });
    const filled = (bytes: number, before = '') =>
      send(`${before}${field('a', 'y'.repeat(bytes))}--XX--`, 65_536);
    expect((await parse(filled(1_048_576))).length).toBe(1);
    expect(await refusal(filled(1_048_577))).toEqual({
      status: 413,
      message: 'a is larger than the maximum of 1048576 bytes; a file must have a filename.',
      param: 'a',
    });
    // Texts are held in memory, so they are bounded together.
    const million = field('b', 'y'.repeat(1_000_000));
    expect((await parse(filled(48_576, million))).length).toBe(2);
    const message = 'a is larger than the maximum of 48576 bytes; a file must have a filename.';
    expect(await refusal(filled(48_577, million))).toMatchObject({ status: 413, message });
  });

  test('has at most so many parts', async () => {
    const body = `${field('a', '1').repeat(64)}--XX--`;
    expect((await parse(send(body))).length).toBe(64);
    expect(await refusal(send(field('a', '1') + body))).toMatchObject({
      status: 400,
      message: 'The form has more than 64 parts.',
    });
  });

  const cutOff = 'The form ends before its last boundary.';
  const malformed = "The form is malformed: a part doesn't end at a boundary.";
  test.each<[string, string, string]>([
    ['nothing', '', "The form doesn't start with the boundary in its Content-Type."],
    [
      'lines that end with LF alone',
      whole.replaceAll('\r\n', '\n'),
      'The form is malformed: its lines must end with CRLF, not LF.',
    ],
    [
      'another boundary',
      field('a', '1').replaceAll('XX', 'YY'),
      "The form doesn't start with the boundary in its Content-Type.",
    ],
    ['no closing boundary', field('a', '1'), cutOff],
    [
      'no end of a file',
      '--XX\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nabc',
      cutOff,
    ],
    [
      'headers and no more',
      '--XX\r\nContent-Disposition: form-data; name="a"\r\n--XX--\r\n',
      'The headers of a part are longer than 16384 bytes.',
    ],
    [
      'headers that run into the next part',
      `--XX\r\nContent-Disposition: form-data; name="a"\r\n${field('b', '1')}--XX--`,
      malformed,
    ],
    ['something behind a boundary', `${field('a', '1')}--XX oops`, malformed],
    [
      'no name',
      file('filename="a.mp3"', 'x'),
      'A part of the form has no name in its Content-Disposition header.',
    ],
    [
      'an empty name',
      field('', '1'),
      'A part of the form has no name in its Content-Disposition header.',
    ],
    [
      'no disposition',
      '--XX\r\nContent-Type: text/plain\r\n\r\nx\r\n--XX--',
      'A part of the form has no name in its Content-Disposition header.',
    ],
    [
      'a header without a colon',
      '--XX\r\nnonsense\r\n\r\nx\r\n--XX--',
      'A part of the form has a malformed header.',
    ],
    [
      'the same header twice',
      '--XX\r\nContent-Disposition: form-data; name="a"\r\n' +
        'Content-Disposition: form-data; name="b"\r\n\r\nx\r\n--XX--',
      'A part of the form has two content-disposition headers.',
    ],
    [
      'an encoding',
      '--XX\r\nContent-Disposition: form-data; name="a"\r\n' +
        'Content-Transfer-Encoding: base64\r\n\r\nx\r\n--XX--',
      "Content-Transfer-Encoding isn't supported in a form. Send the bytes unencoded.",
    ],
    [
      'headers without end',
      `--XX\r\nX: ${'h'.repeat(20_000)}\r\n\r\nx\r\n--XX--`,
      'The headers of a part are longer than 16384 bytes.',
    ],
    [
      'a broken file name',
      file('name="f"; filename*=UTF-8\'\'%zz', 'x'),
      'A filename of the form has an invalid percent-encoding.',
    ],
    [
      'more behind its end',
      `${field('a', '1')}--XX--${'z'.repeat(2_000)}`,
      'The form has data after its last boundary.',
    ],
  ])('with %s is refused', async (_, body, message) => {
    for (const chunkBytes of [1, 4_096]) {
      expect(await refusal(send(body, chunkBytes))).toMatchObject({ status: 400, message });
    }
  });

  test('with bytes that are no UTF-8 in a field is refused with its name', async () => {
    const body = Buffer.from(`${field('prompt', '\xff\xfe')}--XX--`, 'latin1');
    expect(await refusal(send(body))).toEqual({
      status: 400,
      message: 'prompt is not valid UTF-8; a file must have a filename.',
      param: 'prompt',
    });
  });

  test.each<[string, number, string]>([
    ['application/json', 415, 'Content-Type must be multipart/form-data, not application/json.'],
    [
      'multipart/mixed; boundary=XX',
      415,
      'Content-Type must be multipart/form-data, not multipart/mixed.',
    ],
    [
      'multipart/form-data',
      400,
      'The Content-Type of the form must have a boundary of 1 to 200 characters.',
    ],
    [
      'multipart/form-data; boundary=',
      400,
      'The Content-Type of the form must have a boundary of 1 to 200 characters.',
    ],
    [
      `multipart/form-data; boundary=${'b'.repeat(201)}`,
      400,
      'The Content-Type of the form must have a boundary of 1 to 200 characters.',
    ],
  ])('of the type %s is refused', async (type, status, message) => {
    expect(await refusal(send(whole, 64, type))).toMatchObject({ status, message });
  });

  test('that was packed is refused', async () => {
    const headers = {
      'content-type': 'multipart/form-data; boundary=XX',
      'content-encoding': 'gzip',
    };
    const body = Bun.gzipSync(whole);
    const request = new Request('http://gateway.test/', { method: 'POST', headers, body });
    expect(await refusal(request)).toMatchObject({
      status: 415,
      message: "Content-Encoding gzip isn't supported. Send the body uncompressed.",
    });
  });

  test('whose sender stalls is refused, and its body is let go', async () => {
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({
      cancel() {
        isCancelled = true;
      },
    });
    const source = new BodySource(new Request('http://a.test', { method: 'POST', body }), 20);
    const failure = await failureOf(source.readExactly(4));
    expect(failure.message).toBe('No byte of the request body arrived for 0 seconds.');
    await source.close();
    expect(isCancelled).toBe(true);
  });

  test('that drips is refused, too, however long it would be', async () => {
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(5);
        controller.enqueue(Buffer.from('a'));
      },
    });
    const source = new BodySource(new Request('http://a.test', { method: 'POST', body }), 1_000);
    const failure = await failureOf(source.readExactly(1_000_000));
    // A machine that stands still in between makes a silence of it.
    expect(failure.message).toMatch(/^(?:The request body is slower|No byte of the request body)/);
    await source.close();
  });

  test('is let go by whoever stops reading it', async () => {
    let isCancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(Buffer.from(field('a', '1'))),
      cancel() {
        isCancelled = true;
      },
    });
    const headers = { 'content-type': 'multipart/form-data; boundary=XX' };
    const request = new Request('http://a.test', { method: 'POST', body, headers });
    for await (const _ of readForm(posted(request), fileBytesMax)) break;
    expect(isCancelled).toBe(true);
  });
});
