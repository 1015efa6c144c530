import { type Family, labels, type Sample } from './exposition.ts';
import type { Histogram } from './histogram.ts';
import type { AttemptCount, Series } from './traffic.ts';

/** The names under which Prometheus finds what was counted. */
export function trafficFamilies(
  series: readonly Series[],
  attempts: readonly AttemptCount[],
): Family[] {
  const answered = series.filter((one) => one.answered);
  return [...durations(series, answered), ...counts(series, answered), attemptsFamily(attempts)];
}

/** As OpenTelemetry's conventions for generative AI are spelt in Prometheus. */
function durations(series: readonly Series[], answered: readonly Series[]): Family[] {
  const tokens = (type: string, pick: (one: Series) => Histogram) =>
    answered.flatMap((one) =>
      pick(one).samples(`${conventionLabels(one)},gen_ai_token_type="${type}"`),
    );
  return [
    {
      name: 'gen_ai_server_request_duration_seconds',
      help: 'From the arrival of a request to the end of its answer.',
      type: 'histogram',
      samples: series.flatMap(durationsOf),
    },
    {
      name: 'gen_ai_server_time_to_first_token_seconds',
      help: 'Streamed answers: from the first attempt to the first words, failed ones included.',
      type: 'histogram',
      samples: answered.flatMap((one) => one.firstToken.samples(conventionLabels(one))),
    },
    {
      name: 'gen_ai_client_token_usage',
      help: 'Tokens of one answered request: all input, cached or not, and all output.',
      type: 'histogram',
      samples: [
        ...tokens('input', ({ promptTokens }) => promptTokens),
        ...tokens('output', ({ outputTokens }) => outputTokens),
      ],
    },
  ];
}

/** Only failed requests have an error's type, as the conventions want it. */
function durationsOf(series: Series): Sample[] {
  const convention = conventionLabels(series);
  return [...series.durations].flatMap(([errorType, durations]) =>
    durations.samples(errorType === '' ? convention : `${convention},error_type="${errorType}"`),
  );
}

function counts(series: readonly Series[], answered: readonly Series[]): Family[] {
  const counter = (name: string, help: string, pick: (one: Series) => Sample[]): Family => ({
    name,
    help,
    type: 'counter',
    samples: answered.flatMap(pick),
  });
  return [
    {
      name: 'tollgate_requests_total',
      help: 'Requests to models that have ended.',
      type: 'counter',
      samples: series.flatMap(outcomesOf),
    },
    counter('tollgate_tokens_total', 'Tokens used. Reasoning is a part of output.', (one) =>
      samplesOf(one, 'class', one.tokens),
    ),
    counter('tollgate_credits_charged_total', 'Credits charged, by fee line.', (one) =>
      samplesOf(one, 'fee', one.credits),
    ),
    counter('tollgate_cache_answers_total', 'Answers given from the cache, and those not.', (one) =>
      samplesOf(one, 'result', one.cache),
    ),
    counter(
      'tollgate_estimated_usage_total',
      'Answers whose provider reported no usage, so that it was estimated.',
      (one) => [{ labels: ourLabels(one), value: one.estimated }],
    ),
  ];
}

function outcomesOf(series: Series): Sample[] {
  const ours = ourLabels(series);
  return [...series.outcomes].map(([key, value]) => {
    const [traffic_mode = '', outcome = ''] = key.split(' ');
    return { labels: `${ours},${labels({ traffic_mode, outcome })}`, value };
  });
}

function attemptsFamily(attempts: readonly AttemptCount[]): Family {
  return {
    name: 'tollgate_upstream_attempts_total',
    help: 'Calls to providers, by what came of them.',
    type: 'counter',
    samples: attempts.map(({ count, ...names }) => ({ labels: labels(names), value: count })),
  };
}

function samplesOf(
  series: Series,
  label: string,
  counts: Readonly<Record<string, number>>,
): Sample[] {
  const ours = ourLabels(series);
  return Object.entries(counts).map(([name, value]) => ({
    labels: `${ours},${label}="${name}"`,
    value,
  }));
}

function ourLabels({ operation, model, provider }: Series): string {
  return labels({ operation, model, provider });
}

function conventionLabels({ operation, model, provider }: Series): string {
  return labels({
    gen_ai_operation_name: operation,
    gen_ai_request_model: model,
    gen_ai_provider_name: provider,
  });
}
