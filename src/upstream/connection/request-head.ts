import { strict as assert } from 'node:assert';

/** Headers as they are sent; `host` has to be among them. */
export function linesOf(headers: Readonly<Record<string, string>>): string {
  let lines = '';
  for (const name of Object.keys(headers)) {
    const value = headers[name] ?? '';
    // Checked where headers come from: a line break in one would make two headers, or two requests.
    assert(!/[\0\r\n]/.test(name + value), 'A header has more than one line.');
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** What stands before the body of a request. */
export function headOf(path: string, lines: string, bodyBytes: number): string {
  // Names are encoded before they become part of a path: a space or a line break in it would make
  // another request.
  assert(!/[^!-~]/.test(path), 'A path has characters that no path has.');
  return `POST ${path} HTTP/1.1\r\n${lines}content-length: ${bodyBytes}\r\n\r\n`;
}
