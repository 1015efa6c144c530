/** Writes a neutral answer as one Anthropic message. */
import type { Citation, FinishReason, WebSearch } from '../../../core/answer.ts';
import type { ReplyIdentity, ReplyWriter, SettledUsage } from '../../dialect.ts';
import { answerId } from '../../normalize/responses/identity.ts';
import { toolInput } from '../../normalize/responses/tool-arguments.ts';
import { Stop } from '../finish.ts';
import { writeUsage } from '../usage.ts';
import { type SearchBlocks, Searches } from './searches.ts';

type Block =
  | { readonly type: 'text'; text: string; citations?: object[] }
  | { readonly type: 'thinking'; thinking: string; signature: string }
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string; json: string }
  | { readonly type: 'redacted_thinking'; readonly data: string }
  | ReturnType<typeof imageBlock>
  | SearchBlocks['use']
  | SearchBlocks['result'];

export class AnthropicReplyWriter implements ReplyWriter {
  readonly #identity: ReplyIdentity;
  readonly #blocks: Block[] = [];
  readonly #calls = new Map<number, { json: string }>();
  readonly #searches: Searches;
  readonly #stop = new Stop();

  constructor(identity: ReplyIdentity) {
    this.#identity = identity;
    this.#searches = new Searches(identity.id);
  }

  text(text: string): void {
    if (text === '') return;
    const last = this.#blocks.at(-1);
    if (last?.type === 'text') last.text += text;
    else this.#blocks.push({ type: 'text', text });
  }

  reasoning(text: string): void {
    this.#openThinking().thinking += text;
  }

  reasoningSignature(signature: string): void {
    this.#openThinking().signature = signature;
  }

  redactedReasoning(data: string): void {
    this.#blocks.push({ type: 'redacted_thinking', data });
  }

  toolCall(call: number, id: string, name: string): void {
    const block = { type: 'tool_use' as const, id, name, json: '' };
    this.#calls.set(call, block);
    this.#stop.hasToolCalls = true;
    this.#blocks.push(block);
  }

  toolArguments(call: number, json: string): void {
    const block = this.#calls.get(call);
    if (block) block.json += json;
  }

  refusal(text: string): void {
    this.#stop.hasRefusal = true;
    this.text(text);
  }

  citation(citation: Citation): void {
    const text = this.#blocks.findLast((block) => block.type === 'text');
    if (!text) return;
    text.citations ??= [];
    text.citations.push(citationOf(citation));
  }

  webSearch(search: WebSearch): void {
    const { use, result } = this.#searches.add(search);
    this.#blocks.push(use, result);
  }

  image(mediaType: string, base64: string): void {
    this.#blocks.push(imageBlock(mediaType, base64));
  }

  finish(reason: FinishReason, stopSequence: string | null): void {
    this.#stop.reason = reason;
    this.#stop.sequence = stopSequence;
  }

  write({ usage }: SettledUsage): string {
    const { id, model } = this.#identity;
    this.#endWithText();
    return JSON.stringify({
      id: answerId('msg', id),
      type: 'message',
      role: 'assistant',
      model,
      content: this.#blocks.map(writeBlock),
      ...this.#stop.fields,
      usage: { ...writeUsage(usage), ...this.#searches.usage },
    });
  }

  /** Drops signatures after the text, because clients use the last block as the answer. */
  #endWithText(): void {
    const isSignature = (block: Block) => block.type === 'thinking' && block.thinking === '';
    const last = this.#blocks.findLastIndex((block) => !isSignature(block));
    if (this.#blocks[last]?.type === 'text') this.#blocks.length = last + 1;
  }

  /** Returns the open thinking block, or starts one. A signature ends a block. */
  #openThinking(): { thinking: string; signature: string } {
    const last = this.#blocks.at(-1);
    if (last?.type === 'thinking' && last.signature === '') return last;
    const next = { type: 'thinking' as const, thinking: '', signature: '' };
    this.#blocks.push(next);
    return next;
  }
}

function writeBlock(block: Block): object {
  if (block.type !== 'tool_use') return block;
  const { type, id, name, json } = block;
  return { type, id, name, input: toolInput(json) };
}

export function citationOf({ url, title, quote }: Citation) {
  return {
    type: 'web_search_result_location',
    url,
    title,
    cited_text: quote,
    encrypted_index: '',
  };
}

export function imageBlock(mediaType: string, base64: string) {
  const source = { type: 'base64', media_type: mediaType, data: base64 };
  return { type: 'image' as const, source };
}
