-- A plain GET of the url.
wrk.method = "GET"
