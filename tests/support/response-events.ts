/** Writes a response as the stream that OpenAI documents: each item is added, sent, and done. */
interface ResponseItem {
  readonly type: string;
  readonly id: string;
  readonly summary?: readonly { readonly text: string }[];
  readonly content?: readonly {
    readonly type: string;
    readonly text?: string;
    readonly refusal?: string;
  }[];
  readonly arguments?: string;
}

export interface FullResponse {
  readonly status: string;
  readonly output: readonly ResponseItem[];
}

type Event = Readonly<Record<string, unknown>> & { readonly type: string };

/** Returns the stream, with numbered events and pieces of 3 characters. */
export function streamOf(response: FullResponse): string {
  const opening = { ...response, status: 'in_progress', output: [], usage: null };
  const events: Event[] = [
    { type: 'response.created', response: opening },
    { type: 'response.in_progress', response: opening },
    ...response.output.flatMap((item, index) => itemEvents(item, index)),
    { type: `response.${response.status}`, response },
  ];
  const numbered = events.map((event, number) => ({ ...event, sequence_number: number }));
  return numbered
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('');
}

function itemEvents(item: ResponseItem, index: number): Event[] {
  const at = { output_index: index, item_id: item.id };
  const empty = { ...item, summary: [], content: [], arguments: '', status: 'in_progress' };
  return [
    { type: 'response.output_item.added', output_index: index, item: empty },
    ...contentEvents(item).map((event) => ({ ...at, ...event })),
    { type: 'response.output_item.done', output_index: index, item },
  ];
}

function contentEvents({
  type,
  summary = [],
  content = [],
  arguments: json = '',
}: ResponseItem): Event[] {
  if (type === 'function_call')
    return deltaEvents('response.function_call_arguments', json, 'arguments');
  if (type === 'reasoning') {
    return summary.flatMap(({ text }, number) => {
      const part = { type: 'summary_text', text };
      return [
        { type: 'response.reasoning_summary_part.added', part: { ...part, text: '' } },
        ...deltaEvents('response.reasoning_summary_text', text, 'text'),
        { type: 'response.reasoning_summary_part.done', part },
      ].map((event) => ({ ...event, summary_index: number }));
    });
  }
  return content.flatMap((part, number) =>
    [
      { type: 'response.content_part.added', part: { ...part, ...emptyFields(part) } },
      ...(part.refusal === undefined
        ? deltaEvents('response.output_text', part.text ?? '', 'text')
        : deltaEvents('response.refusal', part.refusal, 'refusal')),
      { type: 'response.content_part.done', part },
    ].map((event) => ({ ...event, content_index: number })),
  );
}

function emptyFields({ refusal }: { readonly refusal?: string }): object {
  return refusal === undefined ? { text: '' } : { refusal: '' };
}

function deltaEvents(kind: string, text: string, name: string): Event[] {
  const pieces = text.match(/.{1,3}/gsu) ?? [];
  return [
    ...pieces.map((delta) => ({ type: `${kind}.delta`, delta, obfuscation: 'x'.repeat(9) })),
    { type: `${kind}.done`, [name]: text },
  ];
}
