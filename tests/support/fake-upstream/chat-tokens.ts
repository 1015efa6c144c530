/** Shared by the chat dialects: an answer's text, pieces, and token counts. */

import type { ChatAnswer, ToolCall } from './behavior.ts';
import { countWords, type ParsedRequest } from './parsed-request.ts';

export interface TokenCounts {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  readonly reasoning: number;
}

export function answerText(answer: ChatAnswer, request: ParsedRequest): string {
  if (answer.tinyEvents !== undefined) return 'x '.repeat(answer.tinyEvents);
  return answer.echo === true ? request.lastMessage : answer.text;
}

export function argumentsOf(tool: ToolCall): string {
  return typeof tool.arguments === 'string' ? tool.arguments : JSON.stringify(tool.arguments);
}

export function tokenCounts(answer: ChatAnswer, request: ParsedRequest, text: string): TokenCounts {
  const reasoning = countWords(answer.reasoning ?? '');
  const tools = (answer.tools ?? []).map((tool) => `${tool.name} ${argumentsOf(tool)}`).join(' ');
  return {
    prompt: answer.usage?.prompt ?? request.promptTokens,
    completion: answer.usage?.completion ?? reasoning + countWords(text) + countWords(tools),
    cached: answer.cachedTokens ?? 0,
    reasoning,
  };
}

/** Yields one piece per word with its leading space, or `chunks` pieces of equal length. */
export function* textPieces(text: string, chunks: number | undefined): Generator<string> {
  if (chunks === undefined) {
    for (const [word] of text.matchAll(/\s*\S+(?:\s+$)?/g)) yield word;
    return;
  }
  const characters = [...text];
  for (let index = 0; index < chunks; index += 1) {
    const from = Math.floor((index * characters.length) / chunks);
    const to = Math.floor(((index + 1) * characters.length) / chunks);
    if (to > from) yield characters.slice(from, to).join('');
  }
}

/** Splits JSON inside words and escapes, as providers do with tool arguments. */
export function argumentPieces(json: string): readonly string[] {
  return json.match(/[\s\S]{1,5}/gu) ?? [];
}

export function finishOf(answer: ChatAnswer): string {
  return answer.finish ?? ((answer.tools ?? []).length > 0 ? 'tool_calls' : 'stop');
}
