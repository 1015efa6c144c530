import { expositionType } from '../../telemetry/exposition.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { serviceDocs } from '../openapi/gateway-itself.ts';
import type { Route } from '../routes.ts';

interface MetricsParts {
  readonly metrics: Pick<Metrics, 'write'>;
}

/** For Prometheus. Open like the health probes: no label names a tenant, a key or a price. */
export function metricsRoutes(parts: MetricsParts): Route[] {
  return [
    {
      method: 'GET',
      path: '/metrics',
      doc: serviceDocs.metrics,
      access: 'public',
      handle: ({ headers }) =>
        new Response(parts.metrics.write(), {
          headers: { ...headers, 'content-type': expositionType },
        }),
    },
  ];
}
