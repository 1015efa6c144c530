import { describe, expect, spyOn, test } from 'bun:test';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { rejectedBodyMsMax } from '../../core/bounds.ts';
import { GatewayError } from '../../core/errors.ts';
import { FormSource } from './form-source.ts';
import { readForm } from './multipart.ts';

const fileBytesMax = 1_000;
const incoming = (request: Request) => ({ request, requestedModel: '' });

/** Creates a request whose body arrives in chunks of this size. */
function requestWith(body: string | Uint8Array, chunkBytes = 64, type?: string): Request {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body;
  let offset = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (offset >= bytes.length) controller.close();
      else controller.enqueue(bytes.slice(offset, offset + chunkBytes));
      offset += chunkBytes;
    },
  });
  const headers = { 'content-type': type ?? 'multipart/form-data; boundary=XX' };
  return new Request('http://gateway.test/', { method: 'POST', headers, body: stream });
}

async function parse(request: Request) {
  const parts: Record<string, unknown>[] = [];
  for await (const part of readForm(incoming(request), fileBytesMax)) {
    if (part.kind === 'field') parts.push({ ...part });
    else {
      const bytes = Buffer.concat(await Array.fromAsync(part.chunks));
      parts.push({ ...part, chunks: bytes.toString('latin1') });
    }
  }
  return parts;
}

async function errorOf(request: Request) {
  const failure = await failureOf(parse(request));
  if (!(failure instanceof GatewayError)) throw failure;
  return { status: failure.status, message: failure.message, param: failure.param };
}

const field = (name: string, value: string) =>
  `--XX\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const file = (disposition: string, bytes: string) =>
  `--XX\r\nContent-Disposition: form-data; ${disposition}\r\n` +
  `Content-Type: audio/mpeg\r\n\r\n${bytes}\r\n`;

/** Bytes that begin like the boundary several times. */
const nearBoundaries = '\r\n--X\r\n--XY\r\n-\r\n--\r\r\n--X';
const completeForm = [
  field('model', 'demo/transcribe'),
  file('name="file"; filename="a.mp3"', nearBoundaries),
  field('prompt', 'Grüße\r\n\r\n--X'),
  '--XX--\r\n',
].join('');
const expected = [
  { kind: 'field', name: 'model', value: 'demo/transcribe' },
  {
    kind: 'file',
    name: 'file',
    filename: 'a.mp3',
    chunks: nearBoundaries,
  },
  { kind: 'field', name: 'prompt', value: 'Grüße\r\n\r\n--X' },
];

describe('readForm', () => {
  test('ignores up to 1 KiB after the closing boundary', async () => {
    const withEpilogue = (bytes: number) =>
      requestWith(`${field('a', '1')}--XX--${'z'.repeat(bytes)}`, 4_096);
    expect(await parse(withEpilogue(1_024))).toEqual([{ kind: 'field', name: 'a', value: '1' }]);
    expect(await errorOf(withEpilogue(1_025))).toMatchObject({ status: 400 });
  });

  test('ignores the case of header and parameter names', async () => {
    const uppercase = '--XX\r\nCONTENT-DISPOSITION: FORM-DATA; NAME="f"; FILENAME="g"\r\n\r\nx\r\n';
    expect(await parse(requestWith(`${uppercase}--XX--`, 4_096))).toMatchObject([
      { kind: 'file', name: 'f', filename: 'g' },
    ]);
  });

  test.each([1, 2, 3, 5, 7, 64, 1_000_000])(
    'reads the same parts in chunks of %d bytes',
    async (chunkBytes) => {
      expect(await parse(requestWith(completeForm, chunkBytes))).toEqual(expected);
    },
  );

  test.each([1, 64])(
    'ignores up to 1 KiB of lines before the first boundary, in chunks of %d bytes',
    async (chunkBytes) => {
      const longest = `${'p'.repeat(1_022)}\r\n`;
      for (const preamble of ['\r\n', '\r\n\r\n', 'A preamble.\r\n-- X\r\n', longest]) {
        expect(await parse(requestWith(preamble + completeForm, chunkBytes))).toEqual(expected);
      }
      for (const preamble of ['no line: ', '\n', `p${longest}`]) {
        const { message } = await errorOf(requestWith(preamble + completeForm, chunkBytes));
        expect(message).toStartWith("The form doesn't start with the boundary");
      }
    },
  );

  test('ignores up to 64 spaces and tabs after a boundary', async () => {
    const padded = completeForm.replaceAll('--XX\r\n', `--XX${' \t'.repeat(32)}\r\n`);
    expect(await parse(requestWith(padded, 7))).toEqual(expected);
    const { message } = await errorOf(requestWith(padded.replace('\t ', '\t  '), 7));
    expect(message).toStartWith('The form is malformed');
  });

  test('accepts a file without a Content-Type', async () => {
    const body =
      '--XX\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nx\r\n--XX--';
    expect(await parse(requestWith(body))).toEqual([
      { kind: 'file', name: 'f', filename: 'f', chunks: 'x' },
    ]);
  });

  test('reads a form that the runtime wrote', async () => {
    const form = new FormData();
    const bytes = crypto.getRandomValues(new Uint8Array(900));
    form.set('file', new File([bytes], 'we "quote" ünïcode.wav', { type: 'audio/wav' }));
    form.set('language', 'de');
    const [fileField, language] = await parse(
      new Request('http://gateway.test/', { method: 'POST', body: form }),
    );
    expect(fileField).toMatchObject({ kind: 'file', name: 'file' });
    expect(fileField?.chunks).toBe(Buffer.from(bytes).toString('latin1'));
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
  ])('reads from %s the filename %s', async (disposition, filename) => {
    const [part] = await parse(requestWith(`${file(disposition, 'x')}--XX--`));
    expect(part).toMatchObject({ kind: 'file', name: 'file', filename });
  });

  test('accepts empty fields, empty files, and a quoted boundary', async () => {
    const body = `${field('a', '')}${file('name="b"; filename="b"', '')}--XX--`;
    const parts = await parse(
      requestWith(body, 9, 'multipart/form-data; charset=x; boundary="XX"'),
    );
    expect(parts).toMatchObject([{ value: '' }, { chunks: '' }]);
  });

  test('skips a file that was not read or only partly read', async () => {
    const body = `${file('name="f"; filename="f"', 'y'.repeat(500))}${field('after', '1')}--XX--`;
    for (const isPartlyRead of [false, true]) {
      const names: string[] = [];
      for await (const part of readForm(incoming(requestWith(body, 50)), fileBytesMax)) {
        names.push(part.name);
        if (part.kind === 'field' || !isPartlyRead) continue;
        for await (const _ of part.chunks) break;
      }
      expect(names).toEqual(['f', 'after']);
    }
  });

  test('rejects files and fields above the limits with 413', async () => {
    const fileOf = (bytes: number) => `${file('name="f"; filename="f"', 'y'.repeat(bytes))}--XX--`;
    expect((await parse(requestWith(fileOf(1_000)))).length).toBe(1);
    expect(await errorOf(requestWith(fileOf(1_001)))).toEqual({
      status: 413,
      message: 'f is larger than the maximum of 1000 bytes.',
      param: 'f',
    });
    const fieldOf = (bytes: number, before = '') =>
      requestWith(`${before}${field('a', 'y'.repeat(bytes))}--XX--`, 65_536);
    expect((await parse(fieldOf(1_048_576))).length).toBe(1);
    expect(await errorOf(fieldOf(1_048_577))).toEqual({
      status: 413,
      message: 'a is larger than the maximum of 1048576 bytes; a file must have a filename.',
      param: 'a',
    });
    // Fields are held in memory, so they share one limit.
    const million = field('b', 'y'.repeat(1_000_000));
    expect((await parse(fieldOf(48_576, million))).length).toBe(2);
    const message = 'a is larger than the maximum of 48576 bytes; a file must have a filename.';
    expect(await errorOf(fieldOf(48_577, million))).toMatchObject({ status: 413, message });
  });

  test('rejects more than 64 parts', async () => {
    const body = `${field('a', '1').repeat(64)}--XX--`;
    expect((await parse(requestWith(body))).length).toBe(64);
    expect(await errorOf(requestWith(field('a', '1') + body))).toMatchObject({
      status: 400,
      message: 'The form has more than 64 parts.',
    });
  });

  const cutOff = 'The form ends before its closing boundary.';
  const malformed = "The form is malformed: a part doesn't end at a boundary.";
  test.each<[string, string, string]>([
    ['an empty body', '', "The form doesn't start with the boundary in its Content-Type."],
    [
      'lines that end with LF only',
      completeForm.replaceAll('\r\n', '\n'),
      'The form is malformed: its lines must end with CRLF, not LF.',
    ],
    [
      'another boundary',
      field('a', '1').replaceAll('XX', 'YY'),
      "The form doesn't start with the boundary in its Content-Type.",
    ],
    ['no closing boundary', field('a', '1'), cutOff],
    [
      'an unfinished file',
      '--XX\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nabc',
      cutOff,
    ],
    [
      'headers without content',
      '--XX\r\nContent-Disposition: form-data; name="a"\r\n--XX--\r\n',
      'The headers of a part are longer than 16384 bytes.',
    ],
    [
      'headers that are followed by the next part',
      `--XX\r\nContent-Disposition: form-data; name="a"\r\n${field('b', '1')}--XX--`,
      malformed,
    ],
    ['text after a boundary', `${field('a', '1')}--XX oops`, malformed],
    [
      'a part without a name',
      file('filename="a.mp3"', 'x'),
      'A part of the form has no name in its Content-Disposition header.',
    ],
    [
      'an empty name',
      field('', '1'),
      'A part of the form has no name in its Content-Disposition header.',
    ],
    [
      'a part without Content-Disposition',
      '--XX\r\nContent-Type: text/plain\r\n\r\nx\r\n--XX--',
      'A part of the form has no name in its Content-Disposition header.',
    ],
    [
      'a header without a colon',
      '--XX\r\nnonsense\r\n\r\nx\r\n--XX--',
      'A part of the form has a malformed header.',
    ],
    [
      'a repeated header',
      '--XX\r\nContent-Disposition: form-data; name="a"\r\n' +
        'Content-Disposition: form-data; name="b"\r\n\r\nx\r\n--XX--',
      'A part of the form has two content-disposition headers.',
    ],
    [
      'a Content-Transfer-Encoding',
      '--XX\r\nContent-Disposition: form-data; name="a"\r\n' +
        'Content-Transfer-Encoding: base64\r\n\r\nx\r\n--XX--',
      "Content-Transfer-Encoding isn't supported in a form. Send the bytes unencoded.",
    ],
    [
      'headers that are too long',
      `--XX\r\nX: ${'h'.repeat(20_000)}\r\n\r\nx\r\n--XX--`,
      'The headers of a part are longer than 16384 bytes.',
    ],
    [
      'a filename with an invalid encoding',
      file('name="f"; filename*=UTF-8\'\'%zz', 'x'),
      'A filename in the form has invalid percent-encoding.',
    ],
    [
      'data after the closing boundary',
      `${field('a', '1')}--XX--${'z'.repeat(2_000)}`,
      'The form has data after its closing boundary.',
    ],
  ])('rejects %s', async (_, body, message) => {
    for (const chunkBytes of [1, 4_096]) {
      expect(await errorOf(requestWith(body, chunkBytes))).toMatchObject({ status: 400, message });
    }
  });

  test('rejects a field that is not UTF-8 and names it', async () => {
    const body = Buffer.from(`${field('prompt', '\xff\xfe')}--XX--`, 'latin1');
    expect(await errorOf(requestWith(body))).toEqual({
      status: 400,
      message: "prompt isn't valid UTF-8; a file must have a filename.",
      param: 'prompt',
    });
  });

  test.each<[string, number, string]>([
    ['', 415, 'Content-Type is missing. Send multipart/form-data.'],
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
  ])('rejects the content type %s', async (type, status, message) => {
    expect(await errorOf(requestWith(completeForm, 64, type))).toMatchObject({ status, message });
  });

  test('rejects a compressed form', async () => {
    const headers = {
      'content-type': 'multipart/form-data; boundary=XX',
      'content-encoding': 'gzip',
    };
    const body = Bun.gzipSync(completeForm);
    const request = new Request('http://gateway.test/', { method: 'POST', headers, body });
    expect(await errorOf(request)).toMatchObject({
      status: 415,
      message: "A form can't be compressed. Send it uncompressed.",
    });
  });

  test('rejects a form whose sender stalls and cancels its body', async () => {
    let isCanceled = false;
    const body = new ReadableStream<Uint8Array>({
      cancel() {
        isCanceled = true;
      },
    });
    const source = new FormSource(new Request('http://a.test', { method: 'POST', body }), 20);
    const failure = await failureOf(source.readExactly(4));
    expect(failure.message).toBe('No request body data arrived for 0 seconds.');
    // Otherwise, this test would wait 10 seconds for the rest of the body.
    const { setTimeout } = globalThis;
    using _ = spyOn(globalThis, 'setTimeout').mockImplementation(((run: () => void, ms: number) =>
      setTimeout(run, ms === rejectedBodyMsMax ? 10 : ms)) as typeof setTimeout);
    await source.close();
    expect(isCanceled).toBe(true);
  });

  test('rejects a form below the minimum rate', async () => {
    let isRejected = false;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(5);
        if (isRejected) controller.close();
        else controller.enqueue(Buffer.from('a'));
      },
    });
    const source = new FormSource(new Request('http://a.test', { method: 'POST', body }), 1_000);
    const failure = await failureOf(source.readExactly(1_000_000));
    isRejected = true;
    // If the machine pauses during the test, the message reports a stall instead.
    expect(failure.message).toMatch(
      /^(?:The request body arrived more slowly|No request body data)/,
    );
    await source.close();
  });

  test('rejects a form that takes too long in total, although it keeps arriving', async () => {
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await Bun.sleep(5);
        controller.enqueue(new Uint8Array(1024 * 1024));
      },
    });
    const source = new FormSource(
      new Request('http://a.test', { method: 'POST', body }),
      60_000,
      40,
    );
    const failure = await failureOf(source.skipToEnd(Number.POSITIVE_INFINITY));
    expect(failure.message).toBe('The form took longer than 0 minutes to arrive.');
    await source.close();
  });

  test('cancels the body when its reader stops', async () => {
    let isCanceled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(Buffer.from(field('a', '1'))),
      cancel() {
        isCanceled = true;
      },
    });
    const headers = { 'content-type': 'multipart/form-data; boundary=XX' };
    const request = new Request('http://a.test', { method: 'POST', body, headers });
    for await (const _ of readForm(incoming(request), fileBytesMax)) break;
    expect(isCanceled).toBe(true);
  });
});
