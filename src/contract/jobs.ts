import { Type } from 'typebox';
import { jobFileBytesMax, jobTextLengthMax } from '../core/bounds.ts';
import { transcriptFormats } from '../core/media/audio.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { jobStatuses } from '../jobs/job.ts';
import { speechJobSchema, transcriptionJobSchema } from '../jobs/job-input.ts';
import type { JobPage } from '../jobs/queue.ts';
import { limitQuery, offsetQuery, readLimit, readOffset, readParameter } from './query.ts';
import {
  type ContentDoc,
  count,
  credits,
  data,
  file,
  form,
  megabytes,
  named,
  type RouteDoc,
  record,
  text,
  time,
} from './route-doc.ts';

const statusSchema = Type.Enum([...jobStatuses], { description: 'Only jobs that are this.' });

const jobsQuery = { ...limitQuery, ...offsetQuery, status: statusSchema };

export function readJobPage(query: URLSearchParams): JobPage {
  return {
    limit: readLimit(query),
    offset: readOffset(query),
    status: readParameter(query, 'status', statusSchema) ?? null,
  };
}

const jobFields = {
  id: text('`job_…`'),
  object: Type.Literal('job'),
  type: oneOf('speech', 'transcription'),
  status: oneOf(...jobStatuses),
  model: text(),
  created_at: time(),
  polling_url: text('Where the job can be asked for.'),
};

const output = record('JobOutput', {
  url: text('Anybody who has it can fetch the output.'),
  url_expires_at: time(),
  content_type: text(),
  bytes: count(),
});
const failure = record('JobError', { message: text(), type: text(), code: count() });
const usage = Type.Union([
  record('SpeechJobUsage', { input_characters: count() }),
  record('TranscriptionJobUsage', { seconds: Type.Number({ minimum: 0 }) }),
]);

const job = record('Job', {
  ...jobFields,
  progress: Type.Number({ minimum: 0, maximum: 1 }),
  started_at: nullable(time()),
  completed_at: nullable(time()),
  expires_at: nullable(time('When the output is deleted.')),
  output: nullable(output),
  error: nullable(failure),
  usage,
  cost: credits('Whole credits, of the pieces that are done.'),
  metadata: Type.Record(Type.String(), Type.String()),
});

/** Speech, or a transcript in the format that was asked for. */
const outputs: ContentDoc = {
  types: {
    'audio/*': file(),
    'application/json': file(),
    'text/plain': file(),
    'text/vtt': file(),
  },
};

const jobPath = { id: 'The `job_…` of its creation.' };

export const jobDocs = {
  create: {
    summary: 'Create an audio job',
    details:
      `JSON for speech: a text of up to ${jobTextLengthMax.toLocaleString('en-US')} characters ` +
      'becomes one audio file. A form (multipart/form-data) for transcription: `file` of up to ' +
      `${megabytes(jobFileBytesMax)}, \`model\`, and ` +
      `optionally \`language\`, \`prompt\`, \`temperature\` and \`response_format\` ` +
      `(${transcriptFormats.join(', ')}).`,
    body: {
      types: {
        'application/json': named('SpeechJob', speechJobSchema),
        ...form('TranscriptionJob', { ...transcriptionJobSchema.properties, file: file() }),
      },
    },
    example: { model: 'demo/speech', input: 'A long text.', voice: 'alloy' },
    answers: { 202: record('NewJob', jobFields) },
  },
  list: {
    summary: 'List jobs',
    details: 'Newest first.',
    query: jobsQuery,
    answers: {
      200: record('JobList', {
        object: Type.Literal('list'),
        data: Type.Array(job),
        has_more: Type.Boolean(),
      }),
    },
  },
  show: { summary: 'Look at a job', path: jobPath, answers: { 200: job } },
  cancel: {
    summary: 'Cancel a job',
    details: 'What is done already stays charged. A job that has ended cannot be cancelled: 409.',
    path: jobPath,
    answers: { 200: job },
  },
  secret: {
    summary: 'Look at the secret of webhooks',
    details: 'What receivers verify signatures with, as Standard Webhooks describes.',
    answers: { 200: data(record('WebhookSecret', { secret: text('`whsec_…`') })) },
  },
  object: {
    summary: 'Fetch the output of a job',
    details: 'By the link in `output.url`; the signature in it is the only authority.',
    path: { key: 'The name of the object.' },
    query: { expires: Type.Integer({ minimum: 0 }), signature: Type.String() },
    queryRequired: ['expires', 'signature'],
    answers: { 200: outputs, 206: outputs, 416: { types: {} } },
  },
} satisfies Record<string, RouteDoc>;
