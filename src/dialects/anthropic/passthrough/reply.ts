/** Forwards a non-streaming message from an Anthropic-style upstream to an Anthropic client. */
import { fieldsOf } from '../../../core/json.ts';
import { hasSameTotals } from '../../../core/usage.ts';
import type { AnswerMetrics, ReadResult, ReplyIdentity, TransformedReply } from '../../dialect.ts';
import { malformed } from '../../failure.ts';
import { openAiFinishReasons } from '../../normalize/responses/answer-metrics.ts';
import { answerId, renameModel } from '../../normalize/responses/identity.ts';
import { removeCharges, removePrivateFields } from '../../normalize/responses/private-fields.ts';
import { charactersOfBlock, completeBlock } from '../block-events.ts';
import { finishReasonOf, forwardedStopReason, noStopReason } from '../finish.ts';
import { parseMessage, readReport } from '../upstream/reader.ts';
import { writeUsage } from '../usage.ts';

export function readReply(text: string, identity: ReplyIdentity): ReadResult<TransformedReply> {
  const message = parseMessage(text);
  if (!message.ok) return message;
  const { content, fields } = message.value;
  const { content: _, provider: __, ...rest } = fields;
  removePrivateFields(rest);
  removeCharges(rest.usage);
  const { stop_reason: reason, model: upstreamModel } = rest;
  if (typeof reason !== 'string') return { ok: false, failure: malformed(noStopReason) };
  for (const block of content) completeBlock(block);
  const hasToolCalls = content.some(({ type }) => type === 'tool_use');
  const report = readReport(fields.usage);
  const metrics: AnswerMetrics = {
    ...report,
    finishReason: openAiFinishReasons[finishReasonOf(reason, hasToolCalls)],
    outputCharacters: content.reduce((sum, block) => sum + charactersOfBlock(block), 0),
    failure: undefined,
  };
  const { id, model } = identity;
  const write: TransformedReply['write'] = ({ usage }) => {
    const isCounted = !report.isEstimate && hasSameTotals(report.usage, usage);
    const reportedUsage = fieldsOf(fields.usage);
    const counted = isCounted ? {} : { usage: { ...reportedUsage, ...writeUsage(usage) } };
    const stopped = { stop_reason: forwardedStopReason(reason, hasToolCalls) };
    const identityFields = { id: answerId('msg', id), type: 'message', role: 'assistant', model };
    const rewritten = { ...rest, ...stopped, ...counted, ...identityFields };
    // Fields other than the content may contain the upstream's model name.
    const renamed = renameModel(JSON.stringify(rewritten), upstreamModel, model);
    return `${renamed.slice(0, -1)},"content":${JSON.stringify(content)}}`;
  };
  return { ok: true, value: { metrics, write } };
}
