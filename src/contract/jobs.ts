import { Type } from 'typebox';
import { jobFileBytesMax, jobTextLengthMax } from '../core/bounds.ts';
import { speechFields, transcriptFields, transcriptFormats } from '../core/media/audio.ts';
import { nullable, oneOf, optional } from '../core/schema.ts';
import {
  count,
  credits,
  data,
  file,
  form,
  mebibytes,
  named,
  record,
  type Shape,
  text,
  time,
} from './fields.ts';
import { rotationSchema } from './keys.ts';
import { limitQuery, offsetQuery } from './query.ts';
import type { ContentDoc, RouteDoc } from './route-doc.ts';

// Audio jobs.

const jobStatuses = ['queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired'] as const;
export type JobStatus = (typeof jobStatuses)[number];

export const jobStatusSchema = Type.Enum([...jobStatuses], {
  description: 'Only jobs with this status.',
});

// Requests.

export const metadataNameLengthMax = 64;

/** The same limits as OpenAI's, so that a client can send the same metadata to both. */
const metadata = Type.Record(
  Type.String({ pattern: `^[\\s\\S]{1,${metadataNameLengthMax}}$` }),
  Type.String({ maxLength: 512 }),
  { additionalProperties: false },
);

const alias = Type.String({ minLength: 1, maxLength: 200 });
const webhookUrl = Type.String({
  pattern: '^https?://[\\x21-\\x7e]{1,2000}$',
  expected: 'an http(s) URL of at most 2000 characters',
});

export const speechJobSchema = Type.Object({
  model: alias,
  input: Type.String(),
  ...speechFields,
  webhook_url: optional(webhookUrl),
  metadata: optional(metadata),
});
export type SpeechInput = Shape<typeof speechJobSchema>;

export const transcriptionJobSchema = Type.Object({
  model: alias,
  ...transcriptFields,
  webhook_url: optional(webhookUrl),
  metadata: optional(metadata),
});
export type TranscriptionInput = Shape<typeof transcriptionJobSchema>;

// Responses.

const newJobSchema = record('NewJob', {
  id: text('`job_…`'),
  object: Type.Literal('job'),
  type: oneOf('speech', 'transcription'),
  status: oneOf(...jobStatuses),
  model: text(),
  created_at: time(),
  polling_url: text('The URL to poll for the status.'),
});
export type NewJobObject = Shape<typeof newJobSchema>;

const jobOutputSchema = record('JobOutput', {
  url: text('A signed link: no key is needed to download the output.'),
  url_expires_at: time(),
  content_type: text(),
  bytes: count(),
});
export type JobOutputObject = Shape<typeof jobOutputSchema>;

const jobErrorSchema = record('JobError', { message: text(), type: text(), code: count() });

const jobUsageSchema = Type.Union([
  record('SpeechJobUsage', { input_characters: count() }),
  record('TranscriptionJobUsage', { seconds: Type.Number({ minimum: 0 }) }),
]);
export type JobUsageObject = Shape<typeof jobUsageSchema>;

const jobSchema = record('Job', {
  ...newJobSchema.properties,
  progress: Type.Number({ minimum: 0, maximum: 1 }),
  started_at: nullable(time()),
  completed_at: nullable(time()),
  expires_at: nullable(time('When the output is deleted.')),
  output: nullable(jobOutputSchema),
  error: nullable(jobErrorSchema),
  usage: jobUsageSchema,
  cost: credits('Whole credits, for the finished pieces.'),
  metadata: Type.Record(Type.String(), Type.String()),
});
export type JobObject = Shape<typeof jobSchema>;

const jobListSchema = record('JobList', {
  object: Type.Literal('list'),
  data: Type.Array(jobSchema),
  has_more: Type.Boolean(),
});
export type JobListObject = Shape<typeof jobListSchema>;

const webhookSecretSchema = record('WebhookSecret', {
  secret: text('`whsec_…`'),
  previous_secret_expires_at: nullable(
    time('Until then, webhooks are also signed with the previous secret.'),
  ),
});
export type WebhookSecretObject = Shape<typeof webhookSecretSchema>;

/** Speech, or a transcript in the requested format. */
const outputs: ContentDoc = {
  types: {
    'audio/*': file(),
    'application/json': file(),
    'text/plain': file(),
    'text/vtt': file(),
  },
};

const jobPath = { id: 'The job ID, `job_…`.' };

export const jobDocs = {
  create: {
    summary: 'Create an audio job',
    details:
      'Send JSON for speech: a text of up to ' +
      `${jobTextLengthMax.toLocaleString('en-US')} characters becomes one audio file. ` +
      'Send a form (multipart/form-data) for a transcription: `file` of up to ' +
      `${mebibytes(jobFileBytesMax)}, \`model\`, and ` +
      'optionally `language`, `prompt`, `temperature`, and `response_format` ' +
      `(${transcriptFormats.join(', ')}).`,
    body: {
      types: {
        'application/json': named('SpeechJob', speechJobSchema),
        ...form('TranscriptionJob', { ...transcriptionJobSchema.properties, file: file() }),
      },
    },
    example: { model: 'demo/speech', input: 'A long text.', voice: 'alloy' },
    responses: { 202: newJobSchema },
  },
  list: {
    summary: 'List jobs',
    details: 'Newest first.',
    query: { ...limitQuery, ...offsetQuery, status: jobStatusSchema },
    responses: { 200: jobListSchema },
  },
  show: { summary: 'Get a job', path: jobPath, responses: { 200: jobSchema } },
  cancel: {
    summary: 'Cancel a job',
    details: "Finished pieces stay charged. A job that has ended can't be canceled: 409.",
    path: jobPath,
    responses: { 200: jobSchema },
  },
  secret: {
    summary: 'Get the webhook secret',
    details: 'Receivers use it to verify signatures, as Standard Webhooks describes.',
    responses: { 200: data(webhookSecretSchema) },
  },
  rotateSecret: {
    summary: 'Rotate the webhook secret',
    details:
      'For `overlap_seconds` (a day by default), webhooks have two signatures, one for each ' +
      'secret. Only one previous secret works at a time.',
    body: rotationSchema,
    bodyOptional: true,
    example: { overlap_seconds: 3600 },
    responses: { 200: data(webhookSecretSchema) },
  },
  object: {
    summary: 'Download the output of a job',
    details: 'Use the link in `output.url`; its signature replaces a key.',
    path: { key: 'The name of the object.' },
    query: { expires: Type.Integer({ minimum: 0 }), signature: Type.String() },
    queryRequired: ['expires', 'signature'],
    responses: { 200: outputs, 206: outputs, 416: { types: {} } },
  },
} satisfies Record<string, RouteDoc>;
