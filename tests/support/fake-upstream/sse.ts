/** Server-sent events in every spelling that real providers use. */

import type { SseSyntax } from './behavior.ts';
import { eventFrame } from './frames.ts';

/** `framed`: Bedrock sends its events in binary frames. */
interface Syntax extends SseSyntax {
  readonly framed?: boolean;
}

/** One piece of an answer to send, with what the book must note about it. */
export interface Part {
  readonly bytes: Uint8Array;
  /** How many server-sent events these bytes are. */
  readonly events: number;
  /** The words the client is to see. */
  readonly text?: string;
  /** All words that count as completion tokens: text, reasoning, tool names and arguments. */
  readonly counted?: string;
  /** The usage object that these bytes report. */
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
    lines.push(`id:${space}7`, `retry:${space}3000`, `unheard-of:${space}1`);
  }
  if (event.name !== undefined) lines.push(`event:${space}${event.name}`);
  for (const line of dataLines(event.data, syntax)) lines.push(`data:${space}${line}`);
  return `${lines.join(end)}${end}${end}`;
}

/** Line breaks are put only between JSON tokens: after the opening and before the closing brace. */
function dataLines(data: string, syntax: SseSyntax): readonly string[] {
  const splits = syntax.manyDataLines === true && data.startsWith('{') && data.endsWith('}');
  return splits ? ['{', data.slice(1, -1), '}'] : [data];
}

/** What comes before the first event, in the same write. */
export function preamble(syntax: SseSyntax): Buffer {
  const end = syntax.lineEnd ?? '\n';
  const mark = syntax.byteOrderMark === true ? '\ufeff' : '';
  const comment = syntax.comments === true ? `: FAKE UPSTREAM PROCESSING${end}${end}` : '';
  const odd = syntax.oddFields === true ? `event: unheard-of${end}data: {}${end}${end}` : '';
  return Buffer.from(mark + comment + odd);
}
