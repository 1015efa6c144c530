/** Writes server-sent events in all the syntax variants that providers use. */

import type { SseSyntax } from './behavior.ts';
import { eventFrame } from './frames.ts';

/** `framed`: sends events in binary frames, as Bedrock does. */
interface Syntax extends SseSyntax {
  readonly framed?: boolean;
}

/** A piece of an answer to send, and the data to log about it. */
export interface Part {
  readonly bytes: Uint8Array;
  /** The number of server-sent events in these bytes. */
  readonly events: number;
  /** The text of the answer in these bytes. */
  readonly text?: string;
  /** The words counted as completion tokens: text, reasoning, tool names, and arguments. */
  readonly counted?: string;
  /** The usage object in these bytes. */
  readonly usage?: unknown;
}

export interface SseEvent {
  readonly name?: string;
  readonly data: string;
  readonly text?: string;
  readonly counted?: string;
  readonly usage?: unknown;
}

export function partOf(event: SseEvent, { framed, ...syntax }: Syntax = {}): Part {
  const { name = '', data, text, counted, usage } = event;
  return {
    bytes: framed ? eventFrame(name, data) : Buffer.from(written(event, syntax)),
    events: 1,
    ...(text !== undefined && { text }),
    ...(counted !== undefined && { counted }),
    ...(usage !== undefined && { usage }),
  };
}

function written(event: SseEvent, syntax: SseSyntax): string {
  const end = syntax.lineEnd ?? '\n';
  const space = syntax.noSpace === true ? '' : ' ';
  const lines: string[] = [];
  if (syntax.comments === true) lines.push(': still thinking', ':');
  if (syntax.oddFields === true) {
    lines.push(`id:${space}7`, `retry:${space}3000`, `unknown-name:${space}1`);
  }
  if (event.name !== undefined) lines.push(`event:${space}${event.name}`);
  for (const line of dataLines(event.data, syntax)) lines.push(`data:${space}${line}`);
  return `${lines.join(end)}${end}${end}`;
}

/** Breaks lines only after the opening brace and before the closing brace. */
function dataLines(data: string, syntax: SseSyntax): readonly string[] {
  const splits = syntax.manyDataLines === true && data.startsWith('{') && data.endsWith('}');
  return splits ? ['{', data.slice(1, -1), '}'] : [data];
}

/** Returns the bytes to send before the first event, in the same write. */
export function preamble(syntax: SseSyntax): Buffer {
  const end = syntax.lineEnd ?? '\n';
  const mark = syntax.byteOrderMark === true ? '\ufeff' : '';
  const comment = syntax.comments === true ? `: FAKE UPSTREAM PROCESSING${end}${end}` : '';
  const odd = syntax.oddFields === true ? `event: unknown-name${end}data: {}${end}${end}` : '';
  return Buffer.from(mark + comment + odd);
}
